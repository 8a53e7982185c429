"""The lines of the audit log about one sandbox, as the proxy wrote them in this run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from egress.errors import UsageError
from egress.sandbox import capabilities
from egress.sandbox.cancellation import cancelled_by
from egress.sandbox.command_runner import CommandRunner

if TYPE_CHECKING:
    from egress.api.log_schema import AuditQuery

AuditLine = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some lines, newest first."""

    lines: tuple[AuditLine, ...]
    cursor: str = ""
    """Where the next page begins; empty after the last."""


class LineFollower(Protocol):
    """Lines as they come, until `close` of any thread."""

    def __iter__(self) -> Iterator[AuditLine]: ...

    def __next__(self) -> AuditLine: ...

    def close(self) -> None: ...


class AuditLog(Protocol):
    """The lines about the sandboxes of a fleet."""

    def query(self, name: str, query: AuditQuery) -> tuple[list[dict[str, Any]], str]:
        """Return lines, newest first, and where the next ones begin."""

    def follow(self, name: str, query: AuditQuery) -> LineFollower:
        """Return lines as they come."""


@runtime_checkable
class LoggedFleet(Protocol):
    """A fleet that reads its log for its clients."""

    @property
    def audit_log(self) -> AuditLog: ...


class SandboxAudit:
    """The lines of the log about one sandbox: each request, its verdict, and the rule that decided.

    >>> [line["host"] for line in sandbox.audit.query(verdict="deny").lines]  # doctest: +SKIP
    ['other.example.com']
    """

    def __init__(self, place: CommandRunner) -> None:
        self._place = place

    def __repr__(self) -> str:
        return f"<SandboxAudit of {self._place.name!r}>"

    def query(  # noqa: PLR0913 - each parameter is a condition
        self,
        *,
        verdict: str = "",
        host: str = "",
        code: str = "",
        event: str = "",
        grep: str = "",
        since: str = "",
        until: str = "",
        limit: int = 100,
        cursor: str = "",
    ) -> AuditPage:
        """Return lines, newest first. All conditions that are given have to fit.

        Args:
            verdict: "allow", "deny" or "cut".
            host: in which `*` stands for any text.
            code: the code of the reason.
            event: the kind of line, such as "exchange".
            grep: a text that the line contains.
            since: "30m", "2h" or "7d" ago, a day, or an RFC 3339 moment.
            until: the same; older lines.
            limit: the most lines of this page.
            cursor: that of the page before.

        Raises `UsageError` for a condition that no line can fit.

        >>> page = sandbox.audit.query(since="1h")  # doctest: +SKIP
        >>> older = sandbox.audit.query(since="1h", cursor=page.cursor)  # doctest: +SKIP
        """
        asked = _query(
            verdict=verdict,
            host=host,
            code=code,
            event=event,
            grep=grep,
            since=since,
            until=until,
            limit=limit,
            cursor=cursor,
        )
        lines, following = self._log().query(self._place.name, asked)
        return AuditPage(tuple(lines), following)

    def follow(
        self, *, verdict: str = "", host: str = "", code: str = "", event: str = "", last: int = 0
    ) -> Iterator[AuditLine]:
        """Yield new lines as they are written, after the `last` ones; conditions are those of `query`.

        >>> for line in sandbox.audit.follow(verdict="deny"):  # doctest: +SKIP
        ...     print(line["host"], line["code"])
        """
        asked = _query(verdict=verdict, host=host, code=code, event=event, last=last)
        follower = self._log().follow(self._place.name, asked)
        try:
            while True:
                with cancelled_by(follower.close):
                    line = next(follower, None)
                if line is None:
                    return
                yield line
        finally:
            follower.close()

    def _log(self) -> AuditLog:
        fleet = capabilities.require_fleet(self._place.runtime, "show the log of a sandbox")
        if isinstance(fleet, LoggedFleet):
            return fleet.audit_log
        # Imported here: few programs read the log.
        from egress.sandbox.local_audit_log import LocalAuditLog  # noqa: PLC0415

        return LocalAuditLog(fleet.about)


def _query(**values: object) -> AuditQuery:
    # Imported here: few programs read the log.
    import msgspec  # noqa: PLC0415

    from egress.api.log_schema import AuditQuery  # noqa: PLC0415

    try:
        return msgspec.convert(values, AuditQuery)
    except msgspec.ValidationError as error:
        raise UsageError(f"no line can fit this: {error}", "see the arguments of `query`") from None
