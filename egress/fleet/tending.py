"""The regular work of a fleet: one failure ends neither the work, nor what is left of it.

Timeouts and the stop of sandboxes that sent a canary depend on one thread. An error that nobody expected
would end that thread, and nobody would notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from egress.errors import EgressError
from egress.logger import EventLogger

_log = EventLogger(__name__)
_UNEXPECTED_HINT = "the next turn tries again; if it goes on, report it with this line"


def tend(steps: Iterable[Callable[[], object]]) -> None:
    """Take each step, whatever happens in the others."""
    for step in steps:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the thread has to go on
            cause, hint = cause_and_hint(error)
            _log.error("sandboxes.not_tended", step=step.__name__, cause=cause, hint=hint)


def log_failure(event: str, sandbox: str, error: Exception) -> None:
    """Log what failed for one sandbox."""
    cause, hint = cause_and_hint(error)
    _log.warning(event, sandbox=sandbox, cause=cause, hint=hint)


def cause_and_hint(error: Exception) -> tuple[str, str]:
    """Return what a log says of an error."""
    if isinstance(error, EgressError):
        return error.message, error.hint
    # The text of an unexpected error may hold anything.
    return type(error).__name__, _UNEXPECTED_HINT
