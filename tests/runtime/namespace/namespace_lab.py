r"""A proxy that runs, a stand-in for somebody's API, and a runtime of namespaces between them.

with House(tmp_path) as house:
box = house.box("one")
assert box.get("/x").stdout_bytes == b"hello from outside\n"
"""

from __future__ import annotations

from typing import Final

from egress.ca import public_roots
from egress.runtime.namespace.runtime import NamespaceRuntime
from egress.runtime.provisioning import trust_kit_provisioner
from egress.runtime.proxy_client import ControlProxyClient
from egress.runtime.spec import ExecResult, Spec
from tests.runtime.sandbox_lab import NAME, SECRET, LabSandbox, SandboxLab

__all__ = ["NAME", "PYTHON", "SECRET", "NamespaceLab", "NamespaceLabSandbox"]

PYTHON: Final = "/usr/bin/python3"
"""That of the machine: sandboxes see no other."""


class NamespaceLab(SandboxLab[NamespaceRuntime]):
    """With namespaces."""

    python = PYTHON
    without_memory = frozenset({137, 1})
    """By its group, or by its own bound."""

    def open_runtime(self) -> NamespaceRuntime:
        return NamespaceRuntime(
            ControlProxyClient(self.served.runtime),
            self.home,
            trust_kit_provisioner(public_roots()),
            guarded=(self.served.runtime, self.served.state),
        )

    def spec(self, name: str, **values: object) -> Spec:
        wanted: dict[str, object] = {"image": "host", "ports": (self.upstream.port,), **values}
        return Spec(name=name, **wanted)  # type: ignore[arg-type]

    def box(self, name: str, **values: object) -> NamespaceLabSandbox:
        """A sandbox that runs."""
        return NamespaceLabSandbox(self, self._begun(name, **values))


class NamespaceLabSandbox(LabSandbox[NamespaceLab]):
    """One sandbox of namespaces."""

    def python(self, program: str, *words: str, **values: object) -> ExecResult:
        return self.run(PYTHON, "-c", program, *words, **values)
