"""A secret that a program prints: every password manager, without a plug-in for each.

The program runs without a shell, as the user of the proxy, in that user's home and never in the folder the
proxy was started in: a hostile repository must not bring the settings of a tool. It is found on absolute
entries of `PATH` alone.

Must not quote what the program wrote, on either stream.
"""

from __future__ import annotations

import os

from egress.errors import UnreadableError
from egress.secrets.lifetime import Lifetime
from egress.secrets.process import Broken, Process
from egress.secrets.programs import Programs
from egress.secrets.surroundings import Surroundings
from egress.secrets.value import Value

TTL = 300
"""Seconds for which a value is used when the rules give no `ttl`."""
TIMEOUT = 10.0
_DUE = 0.8
_BY_HAND = "run it by hand as the user of the proxy, with empty input, and see what it says"


class CommandSource:
    """The output of one program."""

    __slots__ = ("_argv", "_process", "_surroundings", "_timeout")

    def __init__(self, argv: tuple[str, ...], surroundings: Surroundings, timeout: float = TIMEOUT) -> None:
        self._argv = argv
        self._surroundings = surroundings
        self._timeout = timeout
        self._process = Process()

    def lifetime(self, ttl: int | None) -> Lifetime:
        end = float(TTL if ttl is None else ttl)
        return Lifetime(due=_DUE * end, end=end)

    def look(self) -> Value:
        name = os.path.basename(self._argv[0]) if self._argv else ""  # noqa: PTH119 - text, not a file
        environ = self._surroundings.of(name)
        programs = Programs(self._surroundings.home, environ.get("PATH", os.defpath))
        program = self._found(programs)
        try:
            ended = self._process.run(program, self._argv, environ, programs.home, self._timeout)
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise UnreadableError(f"{name} cannot be started: {reason}", "check the program") from None
        if isinstance(ended, Broken):
            raise UnreadableError(f"{name} {ended.why}", _BY_HAND)
        if ended.status:
            raise UnreadableError(
                f"{name} {_end(ended.status)} and wrote {ended.stderr} bytes to standard error", _BY_HAND
            )
        return ended.value

    def stop(self) -> None:
        self._process.stop()

    def _found(self, programs: Programs) -> str:
        """Return the full path of the program."""
        first = programs.spelled(self._argv[0]) if self._argv else ""
        if "/" in first and not first.startswith("/"):
            raise UnreadableError(
                f"{first} depends on the folder the proxy runs in", "give the full path of the program"
            )
        found = programs.found(first)
        if found is None:
            raise UnreadableError(
                f"there is no program {first or 'named'}", "install it, or give its full path in `from:`"
            )
        return found


def _end(status: int) -> str:
    return f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
