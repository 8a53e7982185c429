"""What of the caller's environment enters a sandbox, and what is refused at its door.

Theory of operation. Nothing enters by itself but some of fourteen neutral names: those that say how text
and time are to be shown. Most of the fourteen are true of a place and not of a person: a search path, a
home, a user, a folder for what is temporary. In a container they would be true of the wrong place, so the
image's own stand there. In a namespace the programs of the caller's system are run, so their search path
and shell hold.

Everything else is asked for by name. What is asked for is held against the secrets that are configured, in
every spelling that is known of them, and a variable that such a secret is read from is not copied at all:
the rules bring it to where it belongs, and the sandbox is not that place. What the kit sets stands, unless
the caller says of a variable by name that his own is to: then he is told what depends on it.

It reads no environment: the caller hands his over. Errors name variables, never values.
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
    """What a sandbox has for a file system."""

    CONTAINER = "container"
    """That of an image."""
    NAMESPACE = "namespace"
    """That of the caller's machine, or parts of it."""


_NO_KINDS: Final[frozenset[SandboxKind]] = frozenset()
_NAMESPACE_ONLY: Final = frozenset({SandboxKind.NAMESPACE})
_ALL_KINDS: Final = frozenset(SandboxKind)


@dataclass(frozen=True, slots=True)
class NeutralVariable:
    """A name that says nothing of a person, the sandboxes that it enters, and why those and no others."""

    kinds: frozenset[SandboxKind]
    why: str


_PROGRAM_VARIABLES: Final = NeutralVariable(
    _NAMESPACE_ONLY, "The programs of your machine are there in a namespace; an image has others."
)
_IDENTITY_VARIABLES: Final = NeutralVariable(
    _NO_KINDS, "A sandbox has a home, a user and a name of its own; yours are not told."
)
_TEMP_FOLDER_VARIABLES: Final = NeutralVariable(
    _NO_KINDS,
    "It has its own folders for what is temporary; where one is named and missing, programs fail.",
)
_LANGUAGE_VARIABLES: Final = NeutralVariable(
    _ALL_KINDS, "How text is shown. In a container only locales that every image has: see below."
)
_DISPLAY_VARIABLES: Final = NeutralVariable(_ALL_KINDS, "When it is, and on what it is shown.")

NEUTRAL_VARIABLES: Final[Mapping[str, NeutralVariable]] = MappingProxyType(
    {
        **dict.fromkeys(("PATH", "SHELL"), _PROGRAM_VARIABLES),
        **dict.fromkeys(("HOME", "USER", "LOGNAME", "HOSTNAME"), _IDENTITY_VARIABLES),
        **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), _TEMP_FOLDER_VARIABLES),
        **dict.fromkeys(("LANG", "LC_ALL", "LC_CTYPE"), _LANGUAGE_VARIABLES),
        **dict.fromkeys(("TZ", "TERM"), _DISPLAY_VARIABLES),
    }
)
"""The names that may enter without being asked for, and the kinds of sandboxes in which they are true."""

PORTABLE_LOCALES: Final = frozenset({"C", "POSIX", "C.UTF-8", "C.utf8"})
"""Those that every image has. With any other one bash and perl begin by complaining, each time."""

_LOCALE_VARIABLES: Final = frozenset({"LANG", "LC_ALL", "LC_CTYPE"})
_NAME_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_VALUE_BYTES: Final = 128 * 1024
"""Of one variable with its name: the system starts no program that is given more."""


@dataclass(frozen=True, slots=True)
class RequestedVariable:
    """A variable that was asked for by name."""

    name: str
    value: str | None = None
    """None is the value that the caller has himself."""


@dataclass(frozen=True, slots=True)
class VariableNotice:
    """What the caller should know of a variable; nothing was refused."""

    name: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables of a sandbox, complete, and what there is to say about them."""

    variables: Mapping[str, str]
    notices: tuple[VariableNotice, ...] = ()


def read_requested(texts: Sequence[str]) -> tuple[RequestedVariable, ...]:
    """Read what `--env` was given: NAME, or NAME=VALUE. Raises `UsageError` that numbers a wrong one."""
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
    """Put together what the processes of a sandbox are given.

    Args:
        caller: the environment of whoever asks.
        kit: the variables of the kit, stand-ins included.
        needles: the secrets that are configured, as far as their values are known.
        kind: what the sandbox has for a file system.
        asked: what was asked for; of two with one name the later one counts.
        own: variables of the kit of which the caller wants what he asked for.
        sources: variables that configured secrets are read from.

    Raises `UsageError` for a variable that must not enter, that is not there, or that no program can take.
    """
    wanted = _requested_variables(asked, caller, needles, sources)
    for name in own:
        if name not in wanted:
            raise UsageError(
                "a variable of the kit was to be replaced, and nothing was given in its place",
                "give it with --env NAME=VALUE",
            )
    neutral, notices = _neutral_variables(caller, kind, needles)
    notices += [_notice(name, stays=name not in own) for name in wanted if name in kit]
    replaced = {name: value for name, value in wanted.items() if name in own or name not in kit}
    return Environment(MappingProxyType({**neutral, **kit, **replaced}), tuple(notices))


def check_name(name: str) -> None:
    """Raise `UsageError` for what no shell could name, without quoting it: it may be a misplaced value."""
    if not _NAME_PATTERN.fullmatch(name):
        raise UsageError("this is not a name for a variable", _NAME_HINT)


def check_value(name: str, value: str) -> None:
    """Raise `UsageError` for a value that cannot be handed to a program."""
    if "\0" in value:
        raise UsageError(f"the value of {name} holds a NUL", "no program can be given one in a variable")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise UsageError(f"the value of {name} is not UTF-8", "give it in a file instead") from None
    # A sign between them, and a NUL at the end.
    if len(name) + size + 2 > _MAX_VALUE_BYTES:
        raise UsageError(f"the value of {name} is larger than a program can be given", "use a file instead")


_NAME_HINT: Final = "use letters, digits and _, and no digit in front: NAME or NAME=VALUE"


def _read(text: str, number: int) -> RequestedVariable:
    name, sign, value = text.partition("=")
    if not _NAME_PATTERN.fullmatch(name):
        raise UsageError(f"--env number {number} does not begin with the name of a variable", _NAME_HINT)
    return RequestedVariable(name, value if sign else None)


def _requested_variables(
    asked: Iterable[RequestedVariable], caller: Mapping[str, str], needles: Needles, sources: Collection[str]
) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for each in asked:
        check_name(each.name)
        # Whoever forgot the name has given a value for one: it is not to be shown.
        if needles.occur_in(each.name.encode()):
            raise UsageError("the name of a variable holds a configured secret", SECRET_HINT)
        value = _copy_variable(each.name, caller, sources) if each.value is None else each.value
        check_value(each.name, value)
        if needles.occur_in(f"{each.name}={value}".encode()):
            raise UsageError(f"the value of {each.name} holds a configured secret", SECRET_HINT)
        wanted[each.name] = value
    return wanted


SECRET_HINT: Final = "leave it out: the rules inject it on the way; a program that insists gets a stand-in"


def _copy_variable(name: str, caller: Mapping[str, str], sources: Collection[str]) -> str:
    if name in sources:
        raise UsageError(f"a configured secret is read from {name}", SECRET_HINT)
    if name not in caller:
        raise UsageError(
            f"{name} is not set here, so it cannot be copied", f"set it, or use --env {name}=VALUE"
        )
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
                VariableNotice(name, f"{name} holds a configured secret and does not enter", SECRET_HINT)
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
            f"{name} is set by the kit, and what was asked for does not stand",
            "say by name that your own is to stand, if you know what depends on it",
        )
    return VariableNotice(
        name,
        f"{name} is not what the kit would set",
        "what reads it may not find the proxy, or not trust it",
    )
