"""A secret that a program prints: every password manager, without a plug-in for each.

The program runs without a shell, as the user of the proxy, in that user's home and never in the folder the
proxy was started in: a hostile repository must not bring the settings of a tool. It is found on absolute
entries of `PATH` alone.

Must not quote what the program wrote, on either stream.
"""

from __future__ import annotations

import os

from egress.errors import UnreadableError, reason_of
from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.command_process import CommandAborted, CommandProcess
from egress.secrets.program_lookup import ProgramLookup
from egress.secrets.source_value import SourceValue, ValueLifetime

DEFAULT_TTL = 300
"""Seconds for which a value is used when the rules give no `ttl`."""
COMMAND_TIMEOUT = 10.0
_DUE_FRACTION = 0.8
_BY_HAND_HINT = "run it by hand as the user of the proxy, with empty input, and see what it says"


class CommandSecretSource:
    """The output of one program."""

    __slots__ = ("_argv", "_process", "_surroundings", "_timeout")

    def __init__(
        self, argv: tuple[str, ...], surroundings: ChildEnvironment, timeout: float = COMMAND_TIMEOUT
    ) -> None:
        self._argv = argv
        self._surroundings = surroundings
        self._timeout = timeout
        self._process = CommandProcess()

    def lifetime(self, ttl: int | None) -> ValueLifetime:
        end = float(DEFAULT_TTL if ttl is None else ttl)
        return ValueLifetime(due=_DUE_FRACTION * end, end=end)

    def fetch(self) -> SourceValue:
        name = os.path.basename(self._argv[0]) if self._argv else ""  # noqa: PTH119 - text, not a file
        environ = self._surroundings.of(name)
        programs = ProgramLookup(self._surroundings.home, environ.get("PATH", os.defpath))
        program = self._found(programs)
        try:
            ended = self._process.run(program, self._argv, environ, programs.home, self._timeout)
        except OSError as error:
            reason = reason_of(error)
            raise UnreadableError(f"{name} cannot be started: {reason}", "check the program") from None
        if isinstance(ended, CommandAborted):
            raise UnreadableError(f"{name} {ended.why}", _BY_HAND_HINT)
        if ended.status:
            raise UnreadableError(
                f"{name} {_end(ended.status)} and wrote {ended.stderr} bytes to standard error", _BY_HAND_HINT
            )
        return ended.value

    def stop(self) -> None:
        self._process.stop()

    def _found(self, programs: ProgramLookup) -> str:
        """Return the full path of the program."""
        first = programs.expand_home(self._argv[0]) if self._argv else ""
        if "/" in first and not first.startswith("/"):
            raise UnreadableError(
                f"{first} depends on the folder the proxy runs in", "give the full path of the program"
            )
        found = programs.find(first)
        if found is None:
            raise UnreadableError(
                f"there is no program {first or 'named'}", "install it, or give its full path in `from:`"
            )
        return found


def _end(status: int) -> str:
    return f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
