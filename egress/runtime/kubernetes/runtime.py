"""Sandboxes as pods of a cluster, behind the gateway of their namespace.

A sandbox is created in this order, and any failure undoes the steps before it:

    what no pod can have is refused -> the gateway is looked at -> the pod is made -> its gate proves the
    fence -> its first process waits

The gateway admits a pod by itself: it watches the pods of the namespace. A pod ends with its sandbox, or with
the next runtime of this folder if this one was killed, and in any case at the deadline of its manifest.

A runtime that keeps its sandboxes records them, and the next one of the same folder takes them over. Their
pods go on in the meantime behind the gateway, whose rules hold for them as before.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from egress.api.websocket_as_socket import pair_with
from egress.cluster.api_server import ClusterApi
from egress.cluster.pod_port import open_port
from egress.run_ticket import RunTicket
from egress.runtime.errors import (
    EngineError,
    GatewayError,
    PortClosedError,
    SandboxDiedError,
    SandboxError,
    UnsupportedError,
)
from egress.runtime.kubernetes.api_errors import translated_errors
from egress.runtime.kubernetes.claimed_scripts import write_scripts
from egress.runtime.kubernetes.claims import POOL_PREFIX, Claims, PoolClaim, check_claim
from egress.runtime.kubernetes.gateway import ClusterGateway
from egress.runtime.kubernetes.kept_pods import KeptPod, KeptPods, difference
from egress.runtime.kubernetes.pod_command import PodRun, PodTarget, is_running
from egress.runtime.kubernetes.pod_manifest import check_spec, pod_manifest, refuse_ports
from egress.runtime.kubernetes.pod_reaper import reap, reap_unkept, remove_kept
from egress.runtime.kubernetes.pod_sandbox import PodSandbox, sandbox_of
from egress.runtime.kubernetes.pod_status import PodRecord
from egress.runtime.kubernetes.pod_trouble import trouble_error
from egress.runtime.kubernetes.pods import Pods
from egress.runtime.kubernetes.polling import turns
from egress.runtime.kubernetes.settings import KubernetesSettings
from egress.runtime.kubernetes.ticket_annotations import TicketAnnotations
from egress.runtime.lifecycle import CommandLifecycle, Status, unfit
from egress.runtime.owner_lock import OwnerLock, own_folder
from egress.runtime.protocol import KeptTerms, Output, TakenOver, provision_minimal
from egress.runtime.proxy_client import Admission, Bar, SandboxListener
from egress.runtime.spec import NO_VALUES, Command, Info, Spec, check_ports, check_ready_count
from egress.runtime.supervised_process import SupervisedProcess, drain

READY_SECONDS: Final = 180.0
"""In which a pod has to be ready: a node may have to pull its image first."""
_REMOVAL_SECONDS: Final = 60.0
_RESTART_SECONDS: Final = 60.0
_SCRIPT_SECONDS: Final = 30.0
_CLAIMED_SCRIPTS: Final = "/tmp/.egress"  # noqa: S108 - that of the sandbox
_MAX_LOOKS: Final = 8
"""Looks at kept pods at the same time."""
_KILLED_STATUS: Final = 137
_CLOSED_STATUS: Final = 44
_SHELL: Final = "/bin/sh"
_STOP_SCRIPT: Final = Path(__file__).with_name("stop.sh").read_text(encoding="ascii")
_LISTENING_SCRIPT: Final = Path(__file__).with_name("listening.sh").read_text(encoding="ascii")


class KubernetesRuntime(CommandLifecycle[PodSandbox, SupervisedProcess]):
    """A `Runtime` of one namespace of a cluster."""

    def __init__(
        self,
        api: ClusterApi,
        home: Path,
        settings: KubernetesSettings,
        clock: Callable[[], float] = time.time,  # noqa: TID251 - the controller of claims has its own
        *,
        keeps: bool = False,
    ) -> None:
        """Look at the gateway, and remove what dead runtimes left in `home`.

        `home` is a folder for this user alone. Claims and kept sandboxes end by the `clock`. `keeps`:
        sandboxes may outlive this runtime, with `keep`. Raises `GatewayError` for a namespace without a
        gateway, and `EngineUnavailableError` where no API server answers.
        """
        self._gateway = ClusterGateway(api)
        super().__init__(self._gateway, provision_minimal)
        self._pods = Pods(api)
        self._claims = Claims(api)
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._recording = threading.Lock()
        self._kept: KeptPods | None = None
        self._sweeps = False
        with ExitStack() as parts:
            self._gateway.facts()
            self._home = own_folder(home)
            # Leftovers go before our own lease exists: every other lease belongs to another process.
            reap(self._pods, self._claims, self._home)
            self._lease = parts.enter_context(OwnerLock(self._home, keeps=keeps))
            self._owner = self._lease.path.stem
            if keeps:
                self._kept = KeptPods(self._home, api)
                self._owner = self._kept.owner
                # Runs before the lease is released: what is kept leaves it to the next runtime.
                parts.callback(self._end_keeping)
                self._kept.note_losses()
                reap_unkept(self._pods, self._claims, self._kept, clock())
            self._parts = parts.pop_all()

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sandboxes that did not come back, and the promises that this kind does not make."""
        losses = () if self._kept is None else tuple(self._kept.losses)
        return (*losses, "the number of processes is limited by the node, and not by `pids`")

    # Lifecycle

    def _maker(self, spec: Spec) -> Callable[[], PodSandbox]:
        if spec.image.startswith(POOL_PREFIX):
            check_claim(spec)
            return lambda: self._claim(spec)
        check_spec(spec)
        return lambda: self._make(spec)

    def _make(self, spec: Spec) -> PodSandbox:
        facts = self._gateway.facts()
        manifest = pod_manifest(spec, facts, self._settings, self._owner)
        made = self._pods.create(manifest, spec.name)
        try:
            ready = self._await_container(spec, spec.name, made.metadata.uid, READY_SECONDS)
        except SandboxError:
            # Waited for: the next try of the same name would find it.
            self._remove_pod(spec.name, made.metadata.uid)
            raise
        except BaseException:
            # A caller who gives up waits no longer, and nobody else would know the pod.
            self._pods.delete(spec.name, made.metadata.uid)
            raise
        run = PodRun(spec.name, made.metadata.uid, ready.container)
        return PodSandbox(spec, Admission(spec.name, facts.authority), run)

    def _claim(self, spec: Spec) -> PodSandbox:
        facts = self._gateway.facts()
        made = self._claims.create(spec, self._owner, self._clock() + self._settings.lifetime)
        try:
            pod = self._await_claim(spec, made.metadata.uid)
            ready = self._await_container(spec, pod, "", READY_SECONDS)
            _refuse_without_gate(spec, ready)
            scripts = f"{_CLAIMED_SCRIPTS}-{made.metadata.uid}"
            run = PodRun(pod, ready.metadata.uid, ready.container, ready.container_name, scripts)
            write_scripts(self._target(spec, run), _SCRIPT_SECONDS)
        except BaseException:
            self._claims.delete(spec.name, made.metadata.uid)
            raise
        admission = Admission(spec.name, facts.authority)
        return PodSandbox(spec, admission, run, claim=made.metadata.uid)

    def _await_claim(self, spec: Spec, uid: str) -> str:
        found = None
        for _ in turns(READY_SECONDS):
            found = self._claims.find(spec.name)
            if found is None or found.metadata.uid != uid:
                raise _gone(spec.name)
            if found.pod:
                return found.pod
        why = f": {found.delay}" if found is not None and found.delay else ""
        raise EngineError(
            f"the claim {spec.name} got no sandbox within {READY_SECONDS:g}s{why}",
            "see `kubectl describe sandboxclaim`, and whether the warm pool exists",
        )

    def start(self, name: str) -> Info:
        box = self._register.get(name)
        found = self._pods.find(box.run.pod)
        if box.state == "running" and is_running(found, box.run):
            self._record(box)
            return self.info(name)
        if found is None or found.is_gone or found.metadata.uid != box.run.uid:
            raise _gone(name)
        was_created, before = box.state == "created", box.run
        found = self._await_container(box.spec, before.pod, before.uid, _RESTART_SECONDS)
        with self._lock:
            before.is_over = True
            box.run, box.state = replace(before, container=found.container, is_over=False), "running"
        if not was_created and box.spec.limits.disk_mib is not None:
            # A limited disk is in memory, and empty at every start.
            self._end_processes(box.spec, box.spec.workdir, box.run)
        self._record(box)
        self._tell("started", name)
        return self.info(name)

    def stop(self, name: str) -> None:
        box = self._register.get(name)
        state = self._status(box).state
        if state == "created":
            return
        run = box.run
        # Before the processes end: a command under way must not take their end for its own.
        self._settle(box)
        if state != "stopped":
            self._end_processes(box.spec, "", replace(run, is_over=False))
        self._record(box)

    def _settle(self, box: PodSandbox) -> None:
        with self._lock:
            was_alive = box.state != "stopped"
            box.run.is_over, box.state = True, "stopped"
        if was_alive:
            self._tell("died", box.spec.name)

    def _end_processes(self, spec: Spec, folder: str, run: PodRun) -> None:
        target = self._target(spec, run)
        words = (_SHELL, "-c", _STOP_SCRIPT, "sh", folder)
        if not drain(target.begin(words, {}, has_input=False, terminal=None), _SCRIPT_SECONDS):
            raise EngineError(
                f"the processes of the sandbox {spec.name} did not end in time", "remove the sandbox"
            )

    def _end(self, sandbox: PodSandbox) -> None:
        sandbox.run.is_over = True
        if self._kept is not None:
            # Together: a change of its record that is under way must not write it anew.
            with self._recording:
                sandbox.kept = None
                self._kept.remove(sandbox.spec.name)
        if sandbox.claim:
            # Its pod goes with it.
            self._claims.delete(sandbox.spec.name, sandbox.claim)
            self._await_end(sandbox.spec.name, sandbox.run.pod, sandbox.run.uid)
        else:
            self._remove_pod(sandbox.spec.name, sandbox.run.uid)

    def _remove_pod(self, name: str, uid: str) -> None:
        self._pods.delete(name, uid)
        self._await_end(name, name, uid)

    def _await_end(self, name: str, pod: str, uid: str) -> None:
        for _ in turns(_REMOVAL_SECONDS):
            found = self._pods.find(pod)
            if found is None or found.metadata.uid != uid:
                return
        raise EngineError(
            f"the node did not end the pod of the sandbox {name} in time", "see `kubectl describe pod`"
        )

    def pause(self, name: str) -> None:
        self._running(name)
        raise UnsupportedError("a pod cannot be paused", "stop the sandbox: its files stay")

    def resume(self, name: str) -> None:
        """Do nothing for a sandbox that runs: none is ever paused."""
        self._running(name)

    def prepare(self, spec: Spec, count: int) -> None:
        """Only check the arguments: pods that wait for a sandbox are for a warm pool of the cluster."""
        check_ready_count(count)
        if count:
            check_spec(spec)

    # Beyond the runtime

    def keep(self, name: str, terms: KeptTerms) -> None:
        if self._kept is None:
            raise UnsupportedError("this runtime keeps no sandboxes", "keep them with `egress up`")
        box = self._register.get(name)
        with self._recording:
            box.kept = terms
        self._record(box)

    def bar(self, name: str, bar: Bar) -> None:
        # Revoked at the gateway, which goes on: there is nothing to remember for it.
        self._gateway.bar(name, bar)

    def take_over(self) -> tuple[TakenOver, ...]:
        kept = self._kept
        if kept is None or not (records := tuple(kept.records())):
            return ()
        authority = self._gateway.facts().authority

        def look(record: KeptPod) -> tuple[PodRecord | None, PoolClaim | None]:
            claim = self._claims.find(record.name) if record.claim else None
            return self._pods.find(record.pod), claim

        # All are looked at before any is judged: an API server that fails meanwhile costs no record.
        with ThreadPoolExecutor(_MAX_LOOKS) as pool:
            found = tuple(pool.map(look, records))
        taken: list[TakenOver] = []
        for record, (pod, claim) in zip(records, found, strict=True):
            if pod is None or pod.is_gone or pod.metadata.uid != record.uid:
                kept.lose(record, "its pod was removed")
                continue
            box = sandbox_of(record, authority)
            if reason := difference(record, pod, claim, kept.owner):
                kept.refuse(record, reason)
                # It is for its operator to look at, and does nothing meanwhile.
                with suppress(SandboxError):
                    self._end_processes(box.spec, "", replace(box.run, is_over=False))
                continue
            self._register.add(record.name, lambda box=box: box)  # type: ignore[misc]
            with suppress(SandboxError):
                self._tickets(box).remove_spent(self._clock())
            taken.append(TakenOver(record.name, KeptTerms(record.note, record.deadline)))
        return tuple(taken)

    def leave(self) -> None:
        for name in self._register.names:
            if self._register.get(name).kept is None:
                self.remove(name)
                continue
            with self._register.removing(name) as box:
                if box is not None:
                    # A command that is waited for is not at its end.
                    box.run.is_over = True
        super().close()

    def close(self) -> None:
        self._sweeps = True
        super().close()

    def _record(self, box: PodSandbox) -> None:
        """Write the record of a kept sandbox, if it has changed. Raises `EngineUnavailableError`."""
        with self._recording:
            if self._kept is None or box.kept is None:
                return
            record = box.record(self._kept.cluster, self._kept.namespace, box.kept)
            if record != box.recorded:
                self._kept.write(record)
                box.recorded = record

    def _end_keeping(self) -> None:
        # A runtime that fails to start, or that leaves, leaves the sandboxes to the next one.
        if self._kept is not None and self._sweeps:
            remove_kept(self._pods, self._claims, self._kept)
        else:
            self._lease.leave()

    # Ports

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        check_ports(ports)
        self._register.get(name)
        refuse_ports(ports)

    def dial(self, name: str, port: int) -> socket.socket:
        check_ports((port,))
        words = (_SHELL, "-c", _LISTENING_SCRIPT, "sh", f"{port:04X}")
        # Asked first: a stream to a port that is closed opens, and ends without a word.
        if self.exec(name, Command(argv=words, cwd="/", timeout=_SCRIPT_SECONDS)).exit_code:
            raise PortClosedError(
                f"nothing listens on port {port} of the sandbox {name}", "start what is to listen first"
            )
        with translated_errors():
            stream = open_port(self._pods.api, self._register.get(name).run.pod, port)
        return pair_with(stream, stream.close)

    # Commands

    def _running(self, name: str) -> PodSandbox:
        box = self._register.get(name)
        state = self._status(box).state
        if state != "running":
            raise unfit(name, state)
        return box

    def _begin(
        self, sandbox: PodSandbox, command: Command, output: Output, *, is_open: bool
    ) -> SupervisedProcess:
        return SupervisedProcess(self._target(sandbox.spec, sandbox.run), command, output, is_open=is_open)

    def _target(self, spec: Spec, run: PodRun) -> PodTarget:
        # A claim brings no variables: they would make its start a cold one.
        variables = spec.env if spec.image.startswith(POOL_PREFIX) else NO_VALUES
        return PodTarget(self._pods, spec.name, spec.workdir, run, variables)

    # Tickets

    def add_ticket(
        self,
        name: str,
        ticket: RunTicket,
        seconds: int,  # noqa: ARG002 - the ticket says when it ends
        by: str = "",  # noqa: ARG002 - the cluster's own log has it
        *,
        is_delegated: bool = False,
    ) -> int:
        """Let the gateway find a ticket: on the claim of the sandbox, or on its pod."""
        if is_delegated:
            raise _not_delegated()
        box = self._running(name)
        self._tickets(box).add(ticket, box.run.uid, self._clock())
        return ticket.expires

    def end_ticket(self, name: str, ticket: str, made_by: str | None = None) -> None:
        if made_by is not None:
            raise _not_delegated()
        self._tickets(self._register.get(name)).end(ticket)

    def _tickets(self, box: PodSandbox) -> TicketAnnotations:
        if box.claim:
            return TicketAnnotations(self._claims, box.spec.name)
        return TicketAnnotations(self._pods, box.run.pod)

    # State

    def _status(self, sandbox: PodSandbox) -> Status:
        found = self._pods.find(sandbox.run.pod)
        if found is None or found.metadata.uid != sandbox.run.uid:
            return Status("stopped")
        created = found.metadata.creation_timestamp
        if sandbox.state == "stopped" or not is_running(found, sandbox.run):
            return Status(
                "stopped", created, found.exit_code if found.exit_code is not None else _KILLED_STATUS
            )
        return Status(sandbox.state, created)

    def _renewed(self, sandbox: PodSandbox, admission: Admission) -> Iterable[SandboxListener]:  # noqa: ARG002 - its files are those of the gateway
        return ()

    def _await_container(self, spec: Spec, pod: str, uid: str, seconds: float) -> PodRecord:
        """Wait until the first process of a pod runs; any pod of the name without a uid.

        Raises the reason why it will not.
        """
        found = None
        for _ in turns(seconds):
            found = self._pods.find(pod)
            if found is None or (uid and found.metadata.uid != uid):
                raise _gone(spec.name)
            if found.container:
                return found
            if (trouble := found.trouble()) is not None:
                raise trouble_error(spec, trouble)
        why = f": {found.delay}" if found is not None and found.delay else ""
        raise EngineError(
            f"the pod of the sandbox {spec.name} was not ready within {seconds:g}s{why}",
            "see `kubectl describe pod`; a node may lack processors or memory",
        )


def _refuse_without_gate(spec: Spec, found: PodRecord) -> None:
    if not found.has_gate:
        raise GatewayError(
            f"the pods of the warm pool {spec.image.removeprefix(POOL_PREFIX)} have no gate",
            "complete its SandboxTemplate with `egress k8s inject`",
        )


def _not_delegated() -> UnsupportedError:
    return UnsupportedError(
        "the rules of a gateway delegate no tickets to clients of a port",
        "ask at the unix socket of `egress up`, or annotate the claim",
    )


def _gone(name: str) -> SandboxError:
    return SandboxDiedError(
        f"the pod of the sandbox {name} was removed", "remove the sandbox, and create it again"
    )
