"""A sandbox that is a pod, as its runtime knows it, and its record."""

from __future__ import annotations

from dataclasses import dataclass

from egress.runtime.kubernetes.kept_pods import KeptPod
from egress.runtime.kubernetes.pod_command import PodRun
from egress.runtime.protocol import KeptTerms
from egress.runtime.proxy_client import Admission
from egress.runtime.spec import Spec, State


@dataclass(slots=True)
class PodSandbox:
    """A sandbox."""

    spec: Spec
    admission: Admission
    run: PodRun
    state: State = "created"
    claim: str = ""
    """The uid of the claim that holds its pod; empty for a pod of its own."""
    kept: KeptTerms | None = None
    """The terms by which it outlives this runtime, if it does."""
    recorded: KeptPod | None = None
    """Its record, as it was written last."""

    def record(self, cluster: str, namespace: str, terms: KeptTerms) -> KeptPod:
        """Return the record of the sandbox as it is now."""
        run = self.run
        return KeptPod(
            cluster=cluster,
            namespace=namespace,
            pod=run.pod,
            uid=run.uid,
            container=run.container,
            container_name=run.container_name,
            scripts=run.scripts,
            claim=self.claim,
            state=self.state,
            spec=self.spec,
            note=terms.note,
            deadline=terms.deadline,
        )


def sandbox_of(record: KeptPod, authority: str) -> PodSandbox:
    """Return the sandbox of a record; `authority` is the certificate of its gateway."""
    run = PodRun(
        record.pod,
        record.uid,
        record.container,
        record.container_name,
        record.scripts,
        is_over=record.state == "stopped",
    )
    terms, admission = KeptTerms(record.note, record.deadline), Admission(record.name, authority)
    return PodSandbox(record.spec, admission, run, record.state, record.claim, terms, record)
