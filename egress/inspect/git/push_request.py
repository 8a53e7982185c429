"""The body of a push up to its pack: which refs it wants to move, and what it asks of the server.

The body of a `git-receive-pack` request is

    shallow OID            any number of these
    OLD NEW REF            the commands; behind the first one a NUL and the capabilities
    flush
    an option, a flush     only where the capability push-options asks for them
    PACK...                nothing where every command deletes

A client that is about to send a large pack first sends a body of one flush, to learn whether it has to sign
in.

`PushReader` is fed in any pieces, and reads at most `MAX_COMMAND_BYTES`. Bytes that one server may read
differently from another are refused: a NUL behind a later command, an unknown capability, one ref twice, a
second list. The commands of a signed push stand inside its certificate, which is refused unread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Literal

from egress.errors import WireError
from egress.inspect.git.pkt_line import FLUSH, LENGTH_BYTES, PktLineReader
from egress.inspect.git.ref_name import is_ref_name

ObjectFormat = Literal["sha1", "sha256"]
CommandKind = Literal["create", "update", "delete"]

MAX_COMMAND_BYTES: Final = 256 * 1024
"""Most bytes of commands and options."""
MAX_COMMANDS: Final = 32
MAX_PUSH_OPTIONS: Final = 32
MAX_SHALLOW_LINES: Final = 4_000
PACK_SIGNATURE: Final = b"PACK"

_OID_DIGITS: Final[dict[ObjectFormat, int]] = {"sha1": 40, "sha256": 64}
_OID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FLAGS: Final = frozenset(
    (
        *("report-status", "report-status-v2", "side-band", "side-band-64k"),
        *("quiet", "atomic", "ofs-delta", "push-options", "delete-refs"),
    )
)
_VALUED: Final = frozenset(("object-format", "agent", "session-id"))
_VALUE: Final = re.compile(r"[\x21-\x7e]{1,256}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class PushCapabilities:
    """The capabilities that a client asks for with its first command."""

    flags: frozenset[str] = frozenset()
    object_format: ObjectFormat = "sha1"
    agent: str = ""

    @property
    def has_report(self) -> bool:
        """The client waits for a report on each ref. Without one it takes silence for success."""
        return not self.flags.isdisjoint(("report-status", "report-status-v2"))

    @property
    def band_bytes(self) -> int:
        """Most bytes of a packet of the side band; 0 where the client reads none."""
        if "side-band-64k" in self.flags:
            return 65_520
        return 1_000 if "side-band" in self.flags else 0


@dataclass(frozen=True, slots=True)
class RefCommand:
    """One ref that a push wants to move."""

    ref: str
    old: str
    """The object that the client says the ref has; the server checks it."""
    new: str

    @property
    def kind(self) -> CommandKind:
        """What becomes of the ref. Nothing in a command tells a forced update from another."""
        if not self.old.strip("0"):
            return "create"
        return "update" if self.new.strip("0") else "delete"


@dataclass(frozen=True, slots=True)
class PushRequest:
    """A push as it was asked for."""

    commands: tuple[RefCommand, ...]
    """Empty for a probe, which asks for nothing."""
    capabilities: PushCapabilities = PushCapabilities()
    options: tuple[str, ...] = ()
    shallow: frozenset[str] = frozenset()
    """Commits whose parents the client does not have."""


class _Part(Enum):
    COMMANDS = auto()
    OPTIONS = auto()
    PACK = auto()
    DONE = auto()


class PushReader:
    """Reads the commands of a push."""

    __slots__ = ("_commands", "_lines", "_options", "_part", "_room", "_shallow", "capabilities", "rest")

    def __init__(self) -> None:
        self._lines = PktLineReader()
        self._part = _Part.COMMANDS
        self._room = MAX_COMMAND_BYTES
        self._commands: list[RefCommand] = []
        self._options: list[str] = []
        self._shallow: set[str] = set()
        self.capabilities = PushCapabilities()
        """Those of the first command, also where a later line is refused: they say how to answer."""
        self.rest = b""
        """The bytes of the pack that were fed with the commands."""

    @property
    def commands(self) -> tuple[RefCommand, ...]:
        """The commands that were read so far, also where a later line is refused."""
        return tuple(self._commands)

    def feed(self, data: bytes) -> PushRequest | None:
        """Take in bytes; return the push when all of its commands are read and a pack begins.

        Raises WireError for what is not a push.
        """
        if self._part is _Part.DONE:
            raise WireError("The commands of this push are already read.")
        self._lines.feed(data)
        while self._part in (_Part.COMMANDS, _Part.OPTIONS) and (line := self._next_line()) is not None:
            if self._part is _Part.OPTIONS:
                self._read_option(line)
            elif line == FLUSH:
                self._end_commands()
            else:
                self._read_command_line(line)
        return self._read_pack_start() if self._part is _Part.PACK else None

    def end(self) -> PushRequest:
        """Take note that the body has ended; return the push.

        Raises WireError where it is cut short.
        """
        if self._part is not _Part.PACK or self._lines.peek(1):
            raise WireError("The body of the push is cut short.")
        if any(command.kind != "delete" for command in self._commands):
            raise WireError("The push has no pack.")
        return self._done()

    # Lines

    def _next_line(self) -> bytes | None:
        line = self._lines.next_line()
        self._room -= 0 if line is None else LENGTH_BYTES + len(line)
        if self._room < 0:
            raise WireError("The commands of the push are too long.", status=413)
        return line

    def _read_command_line(self, line: bytes) -> None:
        text, nul, asked = line.partition(b"\0")
        if nul:
            if self._commands:
                raise WireError("A NUL stands behind a later command of the push.")
            self.capabilities = _capabilities(_text(_without_newline(asked)))
        words = _text(text if nul else _without_newline(text)).split(" ")
        match words:
            case ["push-cert"]:
                raise WireError("Signed pushes are not read here: push without --signed.")
            case ["shallow", oid] if not self._commands and not nul:
                self._add_shallow(oid)
            case [old, new, ref]:
                self._add_command(RefCommand(ref, old, new))
            case _:
                raise WireError("A line of the push is no command.")

    def _add_shallow(self, oid: str) -> None:
        if _OID.fullmatch(oid) is None or len(self._shallow) >= MAX_SHALLOW_LINES:
            raise WireError("A shallow line of the push is malformed, or there are too many.")
        self._shallow.add(oid)

    def _add_command(self, command: RefCommand) -> None:
        digits = _OID_DIGITS[self.capabilities.object_format]
        for oid in (command.old, command.new):
            if len(oid) != digits or _OID.fullmatch(oid) is None:
                raise WireError("An object id of the push is malformed.")
        if command.old == command.new:
            raise WireError("A command of the push changes nothing.")
        if not is_ref_name(command.ref):
            raise WireError("A ref of the push is not a full ref name.")
        if any(command.ref == other.ref for other in self._commands):
            raise WireError("The push names one ref twice.")
        if len(self._commands) >= MAX_COMMANDS:
            raise WireError("The push moves too many refs.")
        self._commands.append(command)

    def _end_commands(self) -> None:
        if self._shallow and not self._commands:
            raise WireError("The push has no command.")
        digits = _OID_DIGITS[self.capabilities.object_format]
        if any(len(oid) != digits for oid in self._shallow):
            raise WireError("A shallow line of the push is malformed.")
        has_options = "push-options" in self.capabilities.flags
        self._part = _Part.OPTIONS if has_options else _Part.PACK

    def _read_option(self, line: bytes) -> None:
        if line == FLUSH:
            self._part = _Part.PACK
            return
        option = _text(_without_newline(line))
        if not is_push_option(option) or len(self._options) >= MAX_PUSH_OPTIONS:
            raise WireError("A push option is malformed, or there are too many.")
        self._options.append(option)

    # The pack

    def _read_pack_start(self) -> PushRequest | None:
        start = self._lines.peek(len(PACK_SIGNATURE))
        if not start:
            return None
        if all(command.kind == "delete" for command in self._commands):
            raise WireError("Bytes follow a push that only deletes.")
        if not PACK_SIGNATURE.startswith(start):
            raise WireError("No pack follows the commands of the push.")
        return self._done() if start == PACK_SIGNATURE else None

    def _done(self) -> PushRequest:
        self._part = _Part.DONE
        self.rest = self._lines.take_rest()
        return PushRequest(
            tuple(self._commands), self.capabilities, tuple(self._options), frozenset(self._shallow)
        )


def is_push_option(text: str) -> bool:
    """Tell whether this may be a push option: one line without control characters."""
    return bool(text) and _CONTROL.search(text) is None


def _without_newline(line: bytes) -> bytes:
    return line.removesuffix(b"\n")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise WireError("A line of the push is not UTF-8.") from None


def _capabilities(text: str) -> PushCapabilities:
    flags: set[str] = set()
    values: dict[str, str] = {}
    for word in _words(text):
        name, equals, value = word.partition("=")
        if name in flags or name in values:
            raise WireError("A capability of the push stands twice.")
        if not equals and name in _FLAGS:
            flags.add(name)
        elif equals and name in _VALUED and _VALUE.fullmatch(value) is not None:
            values[name] = value
        else:
            raise WireError("A capability of the push is unknown.")
    return PushCapabilities(frozenset(flags), _object_format(values), values.get("agent", ""))


def _words(text: str) -> Iterator[str]:
    """Split at single spaces, as servers do; git itself leads the list with one."""
    return (word for word in text.split(" ") if word)


def _object_format(values: dict[str, str]) -> ObjectFormat:
    match values.get("object-format", "sha1"):
        case "sha1":
            return "sha1"
        case "sha256":
            return "sha256"
        case _:
            raise WireError("The object format of the push is unknown.")
