"""Secrets printed by a program: works with every password manager, without plug-ins.

The program runs without a shell, as the user of the proxy, in that user's home and never in the folder in
which the proxy was started: a hostile repository must not supply the settings of a tool. Only absolute
entries of `PATH` are searched.

Must not quote any output of the program.
"""

from __future__ import annotations

import os

from egress.command_process import CommandAborted, CommandProcess
from egress.errors import UnreadableError, reason_of
from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.program_lookup import ProgramLookup
from egress.secrets.source_value import SourceValue, ValueLifetime

DEFAULT_TTL = 300
"""Seconds for which a value is used if the rules give no `ttl`."""
COMMAND_TIMEOUT = 10.0
_DUE_FRACTION = 0.8
_BY_HAND_HINT = "run it by hand as the user of the proxy, with empty input, and read its output"


class CommandSecretSource:
    """The output of one program."""

    __slots__ = ("_argv", "_environment", "_process", "_timeout")

    def __init__(
        self, argv: tuple[str, ...], environment: ChildEnvironment, timeout: float = COMMAND_TIMEOUT
    ) -> None:
        self._argv = argv
        self._environment = environment
        self._timeout = timeout
        self._process = CommandProcess()

    @property
    def mints(self) -> bool:
        return True

    def lifetime(self, ttl: int | None) -> ValueLifetime:
        end = float(DEFAULT_TTL if ttl is None else ttl)
        return ValueLifetime(due=_DUE_FRACTION * end, end=end)

    def fetch(self) -> SourceValue:
        name = os.path.basename(self._argv[0]) if self._argv else ""  # noqa: PTH119 - text, not a file
        # The name alone decides which credentials the program may see: see `ChildEnvironment`.
        environ = self._environment.of(name)
        programs = ProgramLookup(self._environment.home, environ.get("PATH", os.defpath))
        program = self._found(programs)
        try:
            ended = self._process.run(program, self._argv, environ, programs.home, self._timeout)
        except OSError as error:
            reason = reason_of(error)
            raise UnreadableError(f"{name} cannot be started: {reason}", "check the program") from None
        if isinstance(ended, CommandAborted):
            # A status says enough; output is only counted, because it may contain the secret.
            raise UnreadableError(f"{name} {ended.told(self._timeout)}", _BY_HAND_HINT)
        if ended.status:
            raise UnreadableError(
                f"{name} {_end(ended.status)} and wrote {ended.stderr} bytes to standard error", _BY_HAND_HINT
            )
        return SourceValue(ended.output.reveal())

    def stop(self) -> None:
        self._process.stop()

    def _found(self, programs: ProgramLookup) -> str:
        """Return the full path of the program."""
        first = programs.expand_home(self._argv[0]) if self._argv else ""
        if "/" in first and not first.startswith("/"):
            raise UnreadableError(f"{first} is a relative path", "give the absolute path of the program")
        found = programs.find(first)
        if found is None:
            raise UnreadableError(
                f"program not found: {first or '(empty)'}", "install it, or give its absolute path in `from:`"
            )
        return found


def _end(status: int) -> str:
    return f"ended with status {status}" if status > 0 else f"was killed by signal {-status}"
