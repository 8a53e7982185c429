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


class Kind(StrEnum):
    """What a sandbox has for a file system."""

    CONTAINER = "container"
    """That of an image."""
    NAMESPACE = "namespace"
    """That of the caller's machine, or parts of it."""


_NOWHERE: Final[frozenset[Kind]] = frozenset()
_THERE: Final = frozenset({Kind.NAMESPACE})
_ANYWHERE: Final = frozenset(Kind)


@dataclass(frozen=True, slots=True)
class Neutral:
    """A name that says nothing of a person, the sandboxes that it enters, and why those and no others."""

    kinds: frozenset[Kind]
    why: str


_PROGRAMS: Final = Neutral(
    _THERE, "The programs of your machine are there in a namespace; an image has others."
)
_WHO: Final = Neutral(_NOWHERE, "A sandbox has a home, a user and a name of its own; yours are not told.")
_TEMPORARY: Final = Neutral(
    _NOWHERE,
    "It has its own folders for what is temporary; where one is named and missing, programs fail.",
)
_LANGUAGE: Final = Neutral(
    _ANYWHERE, "How text is shown. In a container only locales that every image has: see below."
)
_SHOWN: Final = Neutral(_ANYWHERE, "When it is, and on what it is shown.")

NEUTRAL: Final[Mapping[str, Neutral]] = MappingProxyType(
    {
        **dict.fromkeys(("PATH", "SHELL"), _PROGRAMS),
        **dict.fromkeys(("HOME", "USER", "LOGNAME", "HOSTNAME"), _WHO),
        **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), _TEMPORARY),
        **dict.fromkeys(("LANG", "LC_ALL", "LC_CTYPE"), _LANGUAGE),
        **dict.fromkeys(("TZ", "TERM"), _SHOWN),
    }
)
"""The names that may enter without being asked for, and the kinds of sandboxes in which they are true."""

PORTABLE_LOCALES: Final = frozenset({"C", "POSIX", "C.UTF-8", "C.utf8"})
"""Those that every image has. With any other one bash and perl begin by complaining, each time."""

_LOCALES: Final = frozenset({"LANG", "LC_ALL", "LC_CTYPE"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_BYTES: Final = 128 * 1024
"""Of one variable with its name: the system starts no program that is given more."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A variable that was asked for by name."""

    name: str
    value: str | None = None
    """None is the value that the caller has himself."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What the caller should know of a variable; nothing was refused."""

    name: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables of a sandbox, complete, and what there is to say about them."""

    variables: Mapping[str, str]
    notices: tuple[Notice, ...] = ()


def read_asked(texts: Sequence[str]) -> tuple[Asked, ...]:
    """Read what `--env` was given: NAME, or NAME=VALUE. Raises `UsageError` that numbers a wrong one."""
    return tuple(_read(text, number) for number, text in enumerate(texts, 1))


def environment(
    caller: Mapping[str, str],
    kit: Mapping[str, str],
    needles: Needles,
    *,
    kind: Kind,
    asked: Iterable[Asked] = (),
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
    wanted = _wanted(asked, caller, needles, sources)
    for name in own:
        if name not in wanted:
            raise UsageError(
                "a variable of the kit was to be replaced, and nothing was given in its place",
                "give it with --env NAME=VALUE",
            )
    neutral, notices = _neutral(caller, kind, needles)
    notices += [_told(name, stays=name not in own) for name in wanted if name in kit]
    replaced = {name: value for name, value in wanted.items() if name in own or name not in kit}
    return Environment(MappingProxyType({**neutral, **kit, **replaced}), tuple(notices))


def check_name(name: str) -> None:
    """Raise `UsageError` for what no shell could name, without quoting it: it may be a misplaced value."""
    if not _NAME.fullmatch(name):
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
    if len(name) + size + 2 > _MOST_BYTES:
        raise UsageError(f"the value of {name} is larger than a program can be given", "use a file instead")


_NAME_HINT: Final = "use letters, digits and _, and no digit in front: NAME or NAME=VALUE"


def _read(text: str, number: int) -> Asked:
    name, sign, value = text.partition("=")
    if not _NAME.fullmatch(name):
        raise UsageError(f"--env number {number} does not begin with the name of a variable", _NAME_HINT)
    return Asked(name, value if sign else None)


def _wanted(
    asked: Iterable[Asked], caller: Mapping[str, str], needles: Needles, sources: Collection[str]
) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for each in asked:
        check_name(each.name)
        # Whoever forgot the name has given a value for one: it is not to be shown.
        if needles.occur_in(each.name.encode()):
            raise UsageError("the name of a variable holds a configured secret", SECRET_HINT)
        value = _copied(each.name, caller, sources) if each.value is None else each.value
        check_value(each.name, value)
        if needles.occur_in(f"{each.name}={value}".encode()):
            raise UsageError(f"the value of {each.name} holds a configured secret", SECRET_HINT)
        wanted[each.name] = value
    return wanted


SECRET_HINT: Final = "leave it out: the rules inject it on the way; a program that insists gets a stand-in"


def _copied(name: str, caller: Mapping[str, str], sources: Collection[str]) -> str:
    if name in sources:
        raise UsageError(f"a configured secret is read from {name}", SECRET_HINT)
    if name not in caller:
        raise UsageError(
            f"{name} is not set here, so it cannot be copied", f"set it, or use --env {name}=VALUE"
        )
    return caller[name]


def _neutral(caller: Mapping[str, str], kind: Kind, needles: Needles) -> tuple[dict[str, str], list[Notice]]:
    found: dict[str, str] = {}
    notices = []
    for name, neutral in NEUTRAL.items():
        value = caller.get(name)
        if value is None or kind not in neutral.kinds or not _is_true_in(kind, name, value):
            continue
        if needles.occur_in(value.encode("utf-8", "surrogateescape")):
            notices.append(Notice(name, f"{name} holds a configured secret and does not enter", SECRET_HINT))
        elif _can_enter(name, value):
            found[name] = value
    return found, notices


def _is_true_in(kind: Kind, name: str, value: str) -> bool:
    return kind is not Kind.CONTAINER or name not in _LOCALES or value in PORTABLE_LOCALES


def _can_enter(name: str, value: str) -> bool:
    try:
        check_value(name, value)
    except UsageError:
        return False
    return True


def _told(name: str, *, stays: bool) -> Notice:
    if stays:
        return Notice(
            name,
            f"{name} is set by the kit, and what was asked for does not stand",
            "say by name that your own is to stand, if you know what depends on it",
        )
    return Notice(
        name,
        f"{name} is not what the kit would set",
        "what reads it may not find the proxy, or not trust it",
    )
