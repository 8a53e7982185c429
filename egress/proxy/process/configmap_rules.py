"""Rules in a ConfigMap, watched by the API of the cluster: in force within a second of a change.

The ConfigMap has one key, `hosts.yaml`, with the text of a rule file. What is read is the last version that
the watch brought. A ConfigMap that is deleted, or whose watch is lost, changes nothing: the rules in force
stay. Before the first sound version there are no rules, so everything is denied.

Each reload is told in an Event on the ConfigMap, for whoever changed it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from egress.cluster.api_server import ClusterApi
from egress.cluster.event_writer import ClusterEvent, EventWriter, ObjectReference, open_event_writer
from egress.cluster.object_watch import ObjectWatch
from egress.errors import ContentError, UnreadableError
from egress.kubernetes.named_object import NamedObject
from egress.kubernetes.replica_report import RulesVersion
from egress.kubernetes.watch_events import version_number
from egress.policy.rule_source import compile_rules
from egress.proxy.clock import SystemClock
from egress.proxy.control.rule_reload import ReloadOutcome
from egress.proxy.process.rule_feed import Reload
from egress.rules.compile.load import LoadResult, RuleText

RULES_KEY: Final = "hosts.yaml"
MAX_RULES_BYTES: Final = 1024 * 1024
"""More does not fit into a ConfigMap."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class ConfigMapRules:
    """The rules of one ConfigMap in the namespace of this pod."""

    api: ClusterApi
    name: str
    events: EventWriter
    found: NamedObject | None = None
    """The last version that the watch brought; None if there is none."""
    _is_read: bool = field(default=False, init=False)
    """Whether the API server has said what there is."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _why: str = field(default="", init=False)
    _told: tuple[str, ...] = field(default=(), init=False)
    _compiled: tuple[str, int] = field(default=("", 0), init=False)
    """The digest of the rules that were compiled last, and the version that they come from."""
    _version: RulesVersion | None = field(default=None, init=False)

    @property
    def version(self) -> RulesVersion:
        """The version of the rules in force; 0 before the first."""
        return self._version or RulesVersion(0, 0)

    @property
    def names(self) -> str:
        return f"configmap/{self.name}"

    @property
    def paths(self) -> tuple[Path, ...]:
        return ()

    def files(self) -> list[str]:
        return [f"{self.names}/{RULES_KEY}"]

    def read(self, now: int) -> LoadResult:
        found = self.found
        if found is None:
            state = "does not exist" if self._is_read else "was not read yet"
            raise UnreadableError(
                f"{self.names} {state}",
                f"create it in the namespace {self.api.namespace} with the key {RULES_KEY}, "
                "and let the service account of this pod get and watch it",
            )
        loaded = compile_rules([self._text(found)], now)
        if loaded.policy is not None:
            self._compiled = (loaded.policy.digest, version_number(found.metadata.resource_version))
        return loaded

    async def follow(self, reload: Reload) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ObjectWatch(self.api, "configmaps", self.name, self._take, self._lose).run())
            group.create_task(self.events.run())
            while True:
                await self._changed.wait()
                self._changed.clear()
                outcome = await reload(self._why)
                self._note_version(outcome.digest)
                self._tell(outcome)

    def _note_version(self, digest: str) -> None:
        """Take note of the version in force: rules that were refused leave the one before."""
        compiled, version = self._compiled
        if compiled == digest and version != self.version.version:
            self._version = RulesVersion(version, self.events.now())

    def _tell(self, outcome: ReloadOutcome) -> None:
        """Write an Event about a reload, unless it would repeat the last one."""
        found = self.found
        if found is None or outcome.result == "unchanged":
            return
        facts = (outcome.result, outcome.digest, *outcome.problems[:1])
        if facts == self._told:
            return
        self._told = facts
        meta = found.metadata
        about = ObjectReference("ConfigMap", meta.name, meta.uid, version=meta.resource_version)
        if outcome.result == "loaded":
            event = ClusterEvent(about, "RulesLoaded", f"the rules {outcome.digest[:12]} are in force")
        else:
            kept = f"the rules {outcome.digest[:12]} stay in force" if outcome.digest else "all is denied"
            first = next(iter(outcome.problems), "they cannot be used")
            event = ClusterEvent(about, "RulesRefused", f"{first}; {kept}", "Warning")
        self.events.tell(event)

    def _take(self, found: NamedObject | None) -> None:
        before, self.found = self.found, found
        is_first, self._is_read = not self._is_read, True
        if found is None:
            if before is not None or is_first:
                self._note("the ConfigMap is deleted" if before else "the ConfigMap does not exist")
        elif before is None or before.metadata != found.metadata:
            self._note("the ConfigMap has changed")

    def _note(self, why: str) -> None:
        self._why = why
        self._changed.set()

    def _lose(self, reason: str) -> None:
        _log.warning("rules.unwatched", cause=reason, hint="the rules in force stay; it is tried again")

    def _text(self, found: NamedObject) -> RuleText:
        """Return the text of the rules. Raises `ContentError`."""
        text = (found.data or {}).get(RULES_KEY)
        if text is None:
            raise ContentError(f"{self.names} has no key {RULES_KEY}", "put the text of the rule file there")
        # A rule file includes no other, so what stands under another key would never be in force.
        others = sorted(found.keys - {RULES_KEY})
        if others:
            raise ContentError(
                f"{self.names} has {len(others)} more than the key {RULES_KEY}",
                f"put all rules into {RULES_KEY}: no other key is read",
            )
        if len(text.encode("utf-8", "replace")) > MAX_RULES_BYTES:
            raise ContentError(f"{self.names} has more than 1 MiB of rules", "use presets and wildcards")
        return RuleText(f"{self.names}/{RULES_KEY}", text)


def configmap_rules(api: ClusterApi, name: str, replica: str) -> ConfigMapRules:
    """Return the rules of a ConfigMap; Events about them carry the name of this pod."""
    return ConfigMapRules(api, name, open_event_writer(api, replica, SystemClock().now))
