"""Loggers for rooms that commands load: structlog is imported with the first event.

Most commands log nothing, and the import takes longer than many of them. Events go where the process
configured structlog to write. A process that configured nothing gets them on standard error, because its
standard output belongs to the command in a sandbox.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger


class EventLogger:
    """Logs events of one module."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **fields: object) -> None:
        self._bound().debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        self._bound().info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        self._bound().warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        self._bound().error(event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        self._bound().exception(event, **fields)

    def _bound(self) -> BoundLogger:
        import structlog  # noqa: PLC0415 - the reason for this module

        # Asked for each event: a proxy configures its log after its modules were imported.
        if structlog.is_configured():
            return cast("BoundLogger", structlog.get_logger(self._name))
        return cast("BoundLogger", structlog.wrap_logger(structlog.PrintLogger(sys.stderr)))


def load_structlog() -> None:
    """Import structlog without rich, which structlog looks for to colour tracebacks and Egress never uses.

    Only for a process with a single thread: another thread would not find rich meanwhile.
    """
    is_hidden = "rich" not in sys.modules
    if is_hidden:
        # None makes an import fail, as if the package were not installed.
        sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401, PLC0415 - loaded for the modules that import it from here on
    finally:
        if is_hidden:
            del sys.modules["rich"]
