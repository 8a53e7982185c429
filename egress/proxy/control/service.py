"""The control service: answers and actions of the control socket of a running proxy.

`ControlService` keeps the state beside the connections: the last load of the rules, revocations, readiness.
Its answers hold names and numbers, never a value of a secret.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import structlog

from egress import __version__
from egress.errors import EgressError, UsageError
from egress.proxy.control import rule_warnings
from egress.proxy.control.budget_states import BudgetStates
from egress.proxy.control.dynamic_sandboxes import DynamicSandboxes
from egress.proxy.control.request_explanation import RequestExplanations
from egress.proxy.control.revocation import (
    KEPT_KINDS,
    REVOCATION_KINDS,
    RevocationKind,
    RevocationResult,
    Revocations,
    RevocationStore,
    UnknownNameError,
)
from egress.proxy.control.rule_reload import ReloadOutcome, RuleReloader, log_refusal
from egress.proxy.control.sandbox_grants import SandboxPolicies
from egress.proxy.control.sandbox_routes import SandboxRoutes
from egress.proxy.control.sandbox_views import moment, sandbox_views
from egress.proxy.control.secret_states import SecretStates
from egress.proxy.control.server import Body, ControlReply, Routes
from egress.proxy.control.status_lookup import ConnectionCounter, look_up_status
from egress.proxy.control.ticket_routes import TicketRoutes
from egress.proxy.ingress.configured_listeners import ConfiguredListeners
from egress.proxy.ingress.local_tickets import LocalTickets
from egress.proxy.lanes.engine import ProxyEngine, ServedSandbox
from egress.proxy.status_metrics import ProxyStatus
from egress.rules.compile.load import LoadResult
from egress.telemetry.metric_families import MetricFamily
from egress.telemetry.prometheus_text import CONTENT_TYPE, prometheus_text
from egress.types import Severity

if TYPE_CHECKING:
    from egress.proxy.pods.cluster_assembly import ClusterPods

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProcessHooks:
    """Functions that the process provides to the service."""

    files: Callable[[], Sequence[str]]
    """Names the rule files."""
    read: Callable[[], LoadResult]
    """Loads them; runs in a thread."""
    stop: Callable[[str], None]
    """Stops the process, for a reason."""
    remark: Callable[[], None]
    """Logs the warnings about the rules in force."""


class ControlService:
    """A running proxy, as its operator sees it."""

    def __init__(
        self,
        engine: ProxyEngine,
        door: ConnectionCounter,
        listening: ConfiguredListeners,
        process: ProcessHooks,
        sandboxes: DynamicSandboxes | None = None,
        kept: RevocationStore | None = None,
        pods: ClusterPods | None = None,
        tickets: LocalTickets | None = None,
    ) -> None:
        """Without `sandboxes` none can be added while it runs; without `kept` no revocation outlasts it.

        `pods` are the sandboxes of a cluster, which have their tickets elsewhere.
        Raises `UnreadableError` where the kept revocations cannot be read.
        """
        self.engine = engine
        self.withdrawals = Revocations(engine, self._shut, self._reopen, kept)
        self._door = door
        self._listening = listening
        self._sandboxes = sandboxes
        self._files, self._stop, self._remark = process.files, process.stop, process.remark
        self._since = self._loaded_at = engine.clock.now()
        self._results: dict[str, int] = {"loaded": 0, "unchanged": 0, "refused": 0}
        self._reloader = RuleReloader(self.withdrawals, process.read, self._told)
        self.policies = SandboxPolicies(engine)
        self._enrolment = SandboxRoutes(engine, sandboxes, self._forget)
        self._warming: set[asyncio.Task[None]] = set()
        self._guilty: dict[str, ServedSandbox] = {}
        """Sandboxes revoked by a canary, until they are removed or restored."""
        engine.on_canary = self._on_canary
        self._pods = pods
        self._tickets = tickets
        self._ticket_routes = TicketRoutes(engine, tickets) if tickets else None
        if pods is not None:
            pods.sandboxes.on_ended = self._forget

    # Reloading

    async def reload(self, why: str) -> ReloadOutcome:
        """Reload the rules. What is revoked stays so."""
        return await self._reloader.reload(why)

    async def _told(self, outcome: ReloadOutcome, why: str) -> None:
        self._results[outcome.result] += 1
        try:
            if outcome.result == "loaded":
                self._say_loaded(outcome, why)
            elif outcome.result == "refused":
                self._say_refused(outcome, why)
            else:
                _log.info("rules.unchanged", why=why, policy=outcome.digest[:12])
            # A port that failed before may be free by now, so unchanged rules try it again, too.
            if outcome.result == "loaded" or self._listening.failed:
                await self._follow()
        except EgressError as error:
            _log.error("rules.not_recorded", error=error.message)
        # After a refusal too: a source may answer by now. A slow one holds up no further rules.
        warming = asyncio.get_running_loop().create_task(self.warm())
        # Kept in a set: the loop holds only weak references to its tasks.
        self._warming.add(warming)
        warming.add_done_callback(self._warming.discard)

    def _say_loaded(self, outcome: ReloadOutcome, why: str) -> None:
        self._loaded_at = self.engine.clock.now()
        self.engine.metrics.keep(self.withdrawals.policy)
        warnings = sum(finding.severity is Severity.WARNING for finding in outcome.findings)
        _log.info("rules.loaded", why=why, policy=outcome.digest[:12], warnings=warnings)
        rule_warnings.log_findings(outcome.findings)
        self._event(
            "reloaded", policy=outcome.digest, policy_before=outcome.before, files=", ".join(self._files())
        )
        self.policies.note_dropped("the rules no longer delegate it")
        self._remark()

    async def _follow(self) -> None:
        """Open the ports that the rules name now, and close the others."""
        for failed in await self._listening.follow():
            _log.error("listener.failed", at=str(failed.at), cause=failed.reason, hint=failed.hint)
            self._event(
                "listener.failed",
                sandbox=self._listening.sandbox,
                address=failed.at.host,
                port=failed.at.port,
                reason=failed.reason,
                policy=self.engine.policy.digest,
            )

    def _say_refused(self, outcome: ReloadOutcome, why: str) -> None:
        log_refusal(outcome, why, moment(self._loaded_at))
        first = next(iter(outcome.errors), None)
        self._event(
            "reload.refused",
            policy=outcome.digest,
            file=first.place.file if first else None,
            line=first.place.line if first else None,
            column=first.place.column if first else None,
            reason=first.message if first else outcome.message,
        )

    async def warm(self) -> None:
        """Ask for the secrets of the rules, so that the first request does not have to wait."""
        policy = self.engine.policy
        await self.engine.secrets.warm(policy.secrets.values(), rule_warnings.unscrubbed_secrets(policy))

    def _forget(self, sandbox: str) -> None:
        self.withdrawals.forget(sandbox)
        if self._tickets is not None:
            self._tickets.forget(sandbox)
        self.policies.note_dropped("the sandbox was removed")

    def expire_tickets(self) -> None:
        """End the tickets whose time is over; called about once a second."""
        if self._ticket_routes is not None:
            self._ticket_routes.expire()
        if self._pods is not None:
            self._pods.tickets.cut_ended()

    async def _shut(self, sandbox: str) -> None:
        # First: this marks it before anything else can happen.
        if self._sandboxes is not None:
            await self._sandboxes.shut(sandbox)
        if self._pods is not None:
            self._pods.sandboxes.shut(sandbox)
        await self._listening.shut(sandbox)

    async def _reopen(self, sandbox: str) -> None:
        await self._listening.reopen(sandbox)
        if self._sandboxes is not None:
            await self._sandboxes.reopen(sandbox)
        if self._pods is not None:
            self._pods.sandboxes.reopen(sandbox)

    def _event(self, kind: str, /, **facts: str | int | None) -> None:
        self.engine.audit.event(kind, **facts)
        # Flushed at once: an action of the operator is on record before its answer.
        self.engine.audit.flush()

    # The control socket

    def routes(self) -> Routes:
        """Everything that can be asked for."""
        return {
            ("GET", "/healthz"): self._healthz,
            ("GET", "/readyz"): self._readyz,
            ("GET", "/status"): self._status,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/placeholders"): self._placeholders,
            ("GET", "/stopped"): self._stopped_by_canary,
            ("POST", "/held"): self._held,
            ("POST", "/flush"): self._flush,
            ("POST", "/reload"): self._reload,
            ("POST", "/kill"): self._kill,
            ("POST", "/bar"): self._bar,
            ("POST", "/stop"): self._stopped,
            **self._enrolment.routes(),
            **self.policies.routes(),
            **(self._ticket_routes.routes() if self._ticket_routes else {}),
            **RequestExplanations(self.engine).routes(),
            **BudgetStates(self.engine).routes(),
            **SecretStates(self.engine, self.withdrawals).routes(),
        }

    async def _healthz(self, _: Body) -> ControlReply:
        return ControlReply(200, {"status": "alive", "version": __version__})

    async def _readyz(self, _: Body) -> ControlReply:
        problems = self.problems()
        return ControlReply(503 if problems else 200, {"ready": not problems, "problems": problems})

    def problems(self) -> list[str]:
        """Why it cannot serve just now; empty when it can."""
        found = []
        if self.engine.stopping or self.engine.leaving:
            found.append("it is stopping")
        elif self._listening.is_shut:
            found.append("no listener is open")
        if not self.withdrawals.policy.digest:
            found.append("no rules are in force, so everything is denied")
        if self._pods is not None:
            found += self._pods.problems()
        now = self.engine.clock.now()
        for name, sandbox in self.engine.sandboxes.items():
            # One sandbox of many that has filled its share of the log is no reason to serve nobody.
            if sandbox.identity.workload is None:
                if not self.engine.audit.may_work(name):
                    found.append(f"the audit log takes no more records for {name}")
                if sandbox.authority.not_after <= now:
                    found.append(f"the certificate of {name} has expired")
        return found

    async def _flush(self, _: Body) -> ControlReply:
        """Write the lines that wait, for whoever reads the log next."""
        self.engine.audit.flush()
        return ControlReply(200)

    async def _status(self, _: Body) -> ControlReply:
        # Whoever asks may read the log next, as `egress run` does to add up the requests of its sandbox.
        self.engine.audit.flush()
        problems = self.problems()
        return ControlReply(
            200,
            {
                "version": __version__,
                "pid": os.getpid(),
                "run": self.engine.audit.run,
                "since": moment(self._since),
                "ready": not problems,
                "problems": problems,
                "rules": self._rules(),
                "sandboxes": sandbox_views(
                    self.engine, self._listeners, self._door.connections, self.policies.count
                ),
                "connections": len(self.engine.live),
                "requests": asdict(self.engine.audit.tally),
                "killed": self.withdrawals.all(),
                "kept": self.withdrawals.kept,
                **(self._pods.replicas() if self._pods is not None else {}),
            },
        )

    async def _held(self, body: Body) -> ControlReply:
        """Tell which of these texts hold a secret: by index, without names or values."""
        texts = body.get("texts")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return ControlReply(400, {"error": "there are no texts", "hint": 'say {"texts": ["..."]}'})
        policy = self.withdrawals.policy
        # Every secret is fetched first: a secret that was not loaded could not be found in the texts.
        await self.engine.secrets.resolve(policy.secrets.values(), rule_warnings.unscrubbed_secrets(policy))
        needles = self.engine.secrets.all_needles()
        data = [text.encode("utf-8", "surrogatepass") for text in texts]
        found = [at for at, each in enumerate(data) if needles.mask(each).hits]
        return ControlReply(200, {"texts": len(texts), "held": found})

    def _rules(self) -> dict[str, object]:
        policy, last = self.withdrawals.policy, self._reloader.last
        refused = last is not None and last.result == "refused"
        return {
            "files": list(self._files()),
            "digest": policy.digest,
            "in_force": self.engine.policy.digest,
            "loaded": moment(self._loaded_at),
            "mode": policy.mode,
            "hosts": len(policy.entries),
            "networks": len(policy.networks),
            "secrets": sorted(policy.secrets),
            "variables": {
                name: "set" if is_set else "not set"
                for name, is_set in self.engine.secrets.variables(policy.secrets.values()).items()
            },
            "reloads": dict(self._results),
            "refused": list(last.problems) if last is not None and refused else [],
        }

    def _listeners(self, name: str) -> dict[str, object]:
        if self._sandboxes is not None and name in self._sandboxes:
            return {"listeners": self._sandboxes.listeners(name)}
        found = self._listening
        return {
            "listeners": [str(at) for at in found.addresses.get(name, ())],
            "transparent": [str(at) for at in found.transparent],
            "dns": [str(at) for at in found.names],
            "failed": [failed.reason for failed in found.failed],
        }

    async def _metrics(self, body: Body) -> ControlReply:
        """The text of Prometheus; within JSON for those who ask for that, as all else here is."""
        text = self.metrics_text()
        if body.get("as") == "json":
            return ControlReply(200, {"text": text})
        return ControlReply(200, text=text, content_type=CONTENT_TYPE)

    def metrics_text(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        return prometheus_text(self.metric_families())

    def metric_families(self) -> Iterator[MetricFamily]:
        """Yield all metrics, as they are now."""
        now = self._standing()
        yield from self.engine.metrics.families(now.policy)
        yield from now.families()
        if self._pods is not None:
            yield from self._pods.families(asyncio.get_running_loop().time())
        if self.engine.telemetry is not None:
            yield from self.engine.telemetry.families()

    def _standing(self) -> ProxyStatus:
        return look_up_status(
            self.engine,
            self._door,
            self.withdrawals.policy,
            is_ready=not self.problems(),
            began=self._since,
            loaded=self._loaded_at,
            reloads=self._results,
        )

    async def _placeholders(self, _: Body) -> ControlReply:
        """The stand-ins of every sandbox: what it is meant to hold, so no secret."""
        policy = self.engine.policy
        return ControlReply(
            200,
            {
                name: [
                    {"secret": each.secret, "like": each.like, "value": each.value}
                    for each in sandbox.placeholders(policy).all
                ]
                + [
                    {"canary": each.canary.name, "like": each.canary.like, "value": each.value}
                    for each in sandbox.planted(policy)
                ]
                for name, sandbox in self.engine.sandboxes.items()
            },
        )

    async def _reload(self, _: Body) -> ControlReply:
        outcome = await self.reload("the control socket")
        status = 409 if outcome.result == "refused" else 200
        problems = {"problems": list(outcome.problems), "hint": outcome.hint} if status == 409 else {}
        return ControlReply(status, {"result": outcome.result, "policy": outcome.digest, **problems})

    async def _kill(self, body: Body) -> ControlReply:
        name, kind = body.get("name"), body.get("kind")
        undo, keep = body.get("undo", False), body.get("keep", False)
        is_named = isinstance(name, str) and bool(name) and kind in (None, *REVOCATION_KINDS)
        if not is_named or not isinstance(undo, bool) or not isinstance(keep, bool):
            return ControlReply(400, {"error": "a kill names a sandbox, a host or a secret"})
        wanted: RevocationKind | None = next((known for known in REVOCATION_KINDS if known == kind), None)
        try:
            found = self.withdrawals.find(str(name), wanted)
            if keep and not undo and found[0] not in KEPT_KINDS:
                raise UsageError(
                    "a sandbox cannot be kept revoked: after a restart its name is another sandbox's",
                    "leave --keep away; stop what starts the sandbox",
                )
        except UnknownNameError as error:
            told = {"error": error.message, "hint": error.hint, "unknown": True, "names": list(error.names)}
            return ControlReply(409, told)
        except EgressError as error:
            return ControlReply(409, {"error": error.message, "hint": error.hint})
        try:
            if undo:
                done = await self.withdrawals.restore(*found)
            else:
                done = await self.withdrawals.revoke(*found, keep=keep)
        except EgressError as error:
            # Revoked all the same, if that was asked for: only the file could not be written.
            if found[1] in self.withdrawals.all()[found[0]] and not undo:
                self._say_killed(RevocationResult(*found), undo=False)
            return ControlReply(500, {"error": error.message, "hint": error.hint})
        self._say_killed(done, undo=undo)
        said = {"kind": done.kind, "name": done.name, "connections": done.connections}
        return ControlReply(200, {**said, "known": done.was_known, "kept": done.is_kept})

    def record_kept(self) -> None:
        """Record the revocations that are in force from the start."""
        for kind, names in self.withdrawals.kept.items():
            for name in names:
                self._event(
                    "killed", kind=kind, name=name, connections=0, policy=self.engine.policy.digest, kept=True
                )

    def _on_canary(self, sandbox: ServedSandbox) -> None:
        """A sandbox has sent a canary that stops it. Its own lane says so: the rest comes after."""
        # In a cluster that is everybody without rights, so there is nothing to revoke.
        if self._pods is not None and sandbox.identity.sandbox == self._listening.sandbox:
            return
        stopping = asyncio.get_running_loop().create_task(self._stop_sandbox(sandbox))
        self._warming.add(stopping)
        stopping.add_done_callback(self._warming.discard)

    async def _stop_sandbox(self, sandbox: ServedSandbox) -> None:
        name = sandbox.identity.sandbox
        # By itself, and not by its name: another one may have that by now.
        if self.engine.sandboxes.get(name) is not sandbox:
            return
        self._guilty[name] = sandbox
        # Revoked already, by hand or by an earlier canary: the log has the line.
        if name in self.withdrawals.all()["sandbox"]:
            return
        try:
            self._say_killed(await self.withdrawals.revoke("sandbox", name), undo=False)
        except EgressError as error:
            _log.error("sandbox.not_stopped", sandbox=name, error=error.message)

    async def _stopped_by_canary(self, _: Body) -> ControlReply:
        """The sandboxes that sent a canary which stops them: whoever runs them ends their processes.

        And which sandboxes have access at all: their owner remembers it for longer than this process lives.
        """
        there, killed = self.engine.sandboxes, self.withdrawals.all()["sandbox"]
        # A name can be given again: only the same object is the sandbox that sent the canary.
        self._guilty = {
            name: each for name, each in self._guilty.items() if there.get(name) is each and name in killed
        }
        access = {name: name not in killed for name in sorted(there)}
        return ControlReply(200, {"sandboxes": sorted(self._guilty), "access": access})

    async def _bar(self, body: Body) -> ControlReply:
        """Revoke an added sandbox whose access an earlier proxy revoked. It has no listener yet."""
        name, is_offender = body.get("name"), body.get("canary")
        sandbox = self.engine.sandboxes.get(name) if isinstance(name, str) else None
        if sandbox is None or not isinstance(is_offender, bool):
            return ControlReply(400, {"error": "this names no sandbox", "hint": "add it first"})
        if is_offender:
            self._guilty[sandbox.identity.sandbox] = sandbox
        revoked = await self.withdrawals.revoke("sandbox", sandbox.identity.sandbox)
        self._say_killed(revoked, undo=False)
        return ControlReply(200, {"name": revoked.name})

    def _say_killed(self, done: RevocationResult, *, undo: bool) -> None:
        if not done.was_known:
            return
        event = "kill.undone" if undo else "killed"
        _log.warning(event, kind=done.kind, name=done.name, connections=done.connections)
        facts: dict[str, str | int | None] = {} if undo else {"connections": done.connections}
        if done.is_kept:
            facts["kept"] = True
        self._event(event, kind=done.kind, name=done.name, **facts, policy=self.engine.policy.digest)

    async def _stopped(self, _: Body) -> ControlReply:
        self._stop("the control socket")
        return ControlReply(200, {"status": "stopping"})
