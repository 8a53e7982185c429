"""Where the rules of a running proxy come from, and when they are to be read again.

There is one way to load rules, check them and put them in force (`rule_reload`), and two feeds for it: files
of the machine, and a ConfigMap of the cluster. A feed says that something has changed, and gives the rules
when it is asked for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from egress.errors import EgressError
from egress.kubernetes.replica_report import RulesVersion
from egress.policy.rule_file_reader import printable_path
from egress.policy.rule_files import find_rule_files
from egress.policy.rule_source import RuleSource, read_rules
from egress.policy.trust import TrustedFiles
from egress.rules.compile.load import LoadResult

if TYPE_CHECKING:
    from egress.proxy.control.rule_reload import ReloadOutcome

type Reload = Callable[[str], Awaitable[ReloadOutcome]]
"""Reloads the rules, for a reason."""


class RuleFeed(Protocol):
    """The rules of a proxy."""

    @property
    def names(self) -> str:
        """The files, as people name them."""
        ...

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of this machine, for hints that name them."""
        ...

    @property
    def version(self) -> RulesVersion | None:
        """The version of the rules in force in the cluster; None for files, which have none."""
        ...

    def files(self) -> list[str]:
        """Return the name of each text, as findings and records have it."""
        ...

    def read(self, now: int) -> LoadResult:
        """Load the rules as they are; runs in a thread. Raises `EgressError` where there are none to read."""
        ...

    async def follow(self, reload: Reload) -> None:
        """Reload the rules after every change, for ever."""
        ...


@dataclass(frozen=True, slots=True)
class RuleFiles:
    """Rules in files and folders of this machine."""

    chosen: RuleSource
    trust: TrustedFiles
    seen: tuple[object, ...] | None = None
    """The fingerprint of the files, taken before they were read, so that no later change is missed."""

    @property
    def names(self) -> str:
        return self.chosen.names

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.chosen.paths

    @property
    def version(self) -> RulesVersion | None:
        return None

    @property
    def watched(self) -> tuple[Path, ...]:
        """The files whose change triggers a reload."""
        # A changed rule file may wait for the user to trust it again.
        return (*self.paths, self.trust.file) if self.chosen.needs_trust else self.paths

    def files(self) -> list[str]:
        try:
            return [printable_path(path) for path in find_rule_files(self.paths, Path())]
        except EgressError:
            return [printable_path(path) for path in self.paths]

    def read(self, now: int) -> LoadResult:
        return read_rules(self.chosen, self.trust, now)

    async def follow(self, reload: Reload) -> None:
        # Imported here: only a starting proxy watches files.
        from egress.proxy.process.rule_file_watch import changes  # noqa: PLC0415

        async for _ in changes(self.watched, self.seen):
            await reload("a file has changed")
