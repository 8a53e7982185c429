"""Builds the environment of a sandbox: which variables of the caller enter, and which are refused.

Theory of operation. Only fourteen neutral names enter by themselves: those that say how text and time are
shown. Most of the fourteen describe a place, not a person: a search path, a home, a user, a temporary folder.
In a container they would describe the wrong place, so the image's own values apply. In a namespace the
programs of the caller's system run, so their search path and shell apply.

Every other variable is asked for by name. Its value is searched for configured secrets in every known
spelling, and a variable that a secret is read from is not copied at all: the rules inject the secret on the
way out. Variables of the kit win, unless the caller names a variable as his own; he is then told what depends
on it.

The module reads no environment: the caller passes his own. Errors name variables, never values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from egress.errors import UsageError
from egress.scrub import Needles


class SandboxKind(StrEnum):
    """The source of a sandbox's file system."""

    CONTAINER = "container"
    """The file system of an image."""
    NAMESPACE = "namespace"
    """The file system of the caller's machine, or parts of it."""


_NO_KINDS: Final[frozenset[SandboxKind]] = frozenset()
_NAMESPACE_ONLY: Final = frozenset({SandboxKind.NAMESPACE})
_ALL_KINDS: Final = frozenset(SandboxKind)


@dataclass(frozen=True, slots=True)
class NeutralVariable:
    """A neutral name: the kinds of sandboxes that it enters, and the reason."""

    kinds: frozenset[SandboxKind]
    why: str


_PROGRAM_VARIABLES: Final = NeutralVariable(
    _NAMESPACE_ONLY, "A namespace runs your machine's programs; an image has its own."
)
_IDENTITY_VARIABLES: Final = NeutralVariable(
    _NO_KINDS, "A sandbox has its own home, user and host name; yours stay private."
)
_TEMP_FOLDER_VARIABLES: Final = NeutralVariable(
    _NO_KINDS,
    "A sandbox has its own temporary folders; programs fail if a named folder is missing.",
)
_LANGUAGE_VARIABLES: Final = NeutralVariable(
    _ALL_KINDS, "How text is shown. Containers get only locales that every image has: see below."
)
_DISPLAY_VARIABLES: Final = NeutralVariable(_ALL_KINDS, "The time zone, and the type of the terminal.")

NEUTRAL_VARIABLES: Final[Mapping[str, NeutralVariable]] = MappingProxyType(
    {
        **dict.fromkeys(("PATH", "SHELL"), _PROGRAM_VARIABLES),
        **dict.fromkeys(("HOME", "USER", "LOGNAME", "HOSTNAME"), _IDENTITY_VARIABLES),
        **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), _TEMP_FOLDER_VARIABLES),
        **dict.fromkeys(("LANG", "LC_ALL", "LC_CTYPE"), _LANGUAGE_VARIABLES),
        **dict.fromkeys(("TZ", "TERM"), _DISPLAY_VARIABLES),
    }
)
"""The names that enter without being asked for, and the kinds of sandboxes that they enter."""

PORTABLE_LOCALES: Final = frozenset({"C", "POSIX", "C.UTF-8", "C.utf8"})
"""The locales of every image. With any other, bash and perl print a warning at every start."""

NO_KEY: Final = "egress-no-key"
"""The dummy value of a variable from which the rules take a secret: the proxy replaces it on the way out."""

DUMMY_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    # The Xet store hands a token of its own to the client, which the rules deny unless they say otherwise.
    # The client gives up there, although it can download the same file without the store.
    {"HF_TOKEN": MappingProxyType({"HF_HUB_DISABLE_XET": "1"})}
)
"""Settings that go with the dummy in a variable: without them a program asks for what no rule allows."""

_LOCALE_VARIABLES: Final = frozenset({"LANG", "LC_ALL", "LC_CTYPE"})
_NAME_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_VALUE_BYTES: Final = 128 * 1024
"""The kernel's limit for one variable with its name."""


@dataclass(frozen=True, slots=True)
class RequestedVariable:
    """A variable that was asked for by name."""

    name: str
    value: str | None = None
    """None copies the value of the caller's own variable."""


@dataclass(frozen=True, slots=True)
class VariableNotice:
    """A notice about a variable, for the caller; the variable was not refused."""

    name: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Environment:
    """The complete variables of a sandbox, with notices."""

    variables: Mapping[str, str]
    notices: tuple[VariableNotice, ...] = ()


def read_requested(texts: Sequence[str]) -> tuple[RequestedVariable, ...]:
    """Parse `--env` arguments: NAME, or NAME=VALUE. Raises `UsageError` with the number of a wrong one."""
    return tuple(_read(text, number) for number, text in enumerate(texts, 1))


def build_environment(
    caller: Mapping[str, str],
    kit: Mapping[str, str],
    needles: Needles,
    *,
    kind: SandboxKind,
    asked: Iterable[RequestedVariable] = (),
    own: Collection[str] = (),
    sources: Collection[str] = (),
) -> Environment:
    """Build the environment of a sandbox's processes.

    Args:
        caller: the caller's own environment.
        kit: the variables of the kit, stand-ins included.
        needles: the configured secrets, as far as their values are known.
        kind: the source of the sandbox's file system.
        asked: the requested variables; the last one of a name counts.
        own: variables of the kit that the caller replaces by requested ones.
        sources: variables that configured secrets are read from.

    Raises `UsageError` for a variable that must not enter, that is not set, or that no program can take.
    """
    # Requested variables first: a secret among them is an error, and nothing is built.
    wanted = _requested_variables(asked, caller, needles, sources)
    for name in own:
        if name not in wanted:
            raise UsageError(
                "a variable of the kit was to be replaced, but no value was given",
                "give it with --env NAME=VALUE",
            )
    # Later sources win: neutral variables, then the kit's, then the requested ones.
    neutral, notices = _neutral_variables(caller, kind, needles)
    notices += [_notice(name, stays=name not in own) for name in wanted if name in kit]
    replaced = {name: value for name, value in wanted.items() if name in own or name not in kit}
    return Environment(MappingProxyType({**neutral, **kit, **replaced}), tuple(notices))


def check_name(name: str) -> None:
    """Raise `UsageError` for an invalid name, without quoting it: it may be a misplaced value."""
    if not _NAME_PATTERN.fullmatch(name):
        raise UsageError("invalid name of a variable", _NAME_HINT)


def check_value(name: str, value: str) -> None:
    """Raise `UsageError` for a value that cannot be passed to a program."""
    if "\0" in value:
        raise UsageError(f"the value of {name} holds a NUL", "programs cannot receive NUL in a variable")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise UsageError(f"the value of {name} is not UTF-8", "give it in a file instead") from None
    # Two more bytes: the equals sign, and the final NUL.
    if len(name) + size + 2 > _MAX_VALUE_BYTES:
        raise UsageError(f"the value of {name} is too large for a variable", "use a file instead")


_NAME_HINT: Final = "use letters, digits and _, and no digit in front: NAME or NAME=VALUE"


def _read(text: str, number: int) -> RequestedVariable:
    name, sign, value = text.partition("=")
    if not _NAME_PATTERN.fullmatch(name):
        raise UsageError(f"--env number {number} does not start with the name of a variable", _NAME_HINT)
    return RequestedVariable(name, value if sign else None)


def _requested_variables(
    asked: Iterable[RequestedVariable], caller: Mapping[str, str], needles: Needles, sources: Collection[str]
) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for each in asked:
        check_name(each.name)
        # The name may be a misplaced value: it must not appear in the error.
        if needles.occur_in(each.name.encode()):
            raise UsageError("the name of a variable holds a configured secret", SECRET_HINT)
        value = _copy_variable(each.name, caller, sources) if each.value is None else each.value
        check_value(each.name, value)
        # Name and value are searched together: a secret may contain an equals sign.
        if needles.occur_in(f"{each.name}={value}".encode()):
            raise UsageError(f"the value of {each.name} holds a configured secret", SECRET_HINT)
        wanted[each.name] = value
    return wanted


SECRET_HINT: Final = (
    "omit it: the rules inject the secret on the way out; a program that needs a value gets a stand-in"
)


def _copy_variable(name: str, caller: Mapping[str, str], sources: Collection[str]) -> str:
    if name in sources:
        raise UsageError(f"a configured secret is read from {name}", SECRET_HINT)
    if name not in caller:
        raise UsageError(f"{name} is not set in the environment", f"set it, or use --env {name}=VALUE")
    return caller[name]


def _neutral_variables(
    caller: Mapping[str, str], kind: SandboxKind, needles: Needles
) -> tuple[dict[str, str], list[VariableNotice]]:
    found: dict[str, str] = {}
    notices = []
    for name, neutral in NEUTRAL_VARIABLES.items():
        value = caller.get(name)
        if value is None or kind not in neutral.kinds or not _is_true_in(kind, name, value):
            continue
        if needles.occur_in(value.encode("utf-8", "surrogateescape")):
            notices.append(
                VariableNotice(name, f"{name} holds a configured secret and was left out", SECRET_HINT)
            )
        elif _can_enter(name, value):
            found[name] = value
    return found, notices


def _is_true_in(kind: SandboxKind, name: str, value: str) -> bool:
    return kind is not SandboxKind.CONTAINER or name not in _LOCALE_VARIABLES or value in PORTABLE_LOCALES


def _can_enter(name: str, value: str) -> bool:
    try:
        check_value(name, value)
    except UsageError:
        return False
    return True


def _notice(name: str, *, stays: bool) -> VariableNotice:
    if stays:
        return VariableNotice(
            name,
            f"{name} is set by the kit; your value was ignored",
            "name it as your own to replace it, if you know what depends on it",
        )
    return VariableNotice(
        name,
        f"{name} replaces the value of the kit",
        "programs that read it may not find the proxy, or not trust it",
    )
