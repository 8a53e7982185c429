r"""A proxy that runs, a stand-in for somebody's API, and a runtime of namespaces between them.

with House(tmp_path) as house:
box = house.box("one")
assert box.get("/x").stdout == b"hello from outside\n"
"""

from __future__ import annotations

from typing import Final

from egress.ca import public_roots
from egress.runtime.dressing import kitted
from egress.runtime.gateway import ProxyGateway
from egress.runtime.namespace.runtime import NamespaceRuntime
from egress.runtime.spec import ExecResult, Spec
from tests.runtime.household import NAME, SECRET, Household, Room

__all__ = ["NAME", "PYTHON", "SECRET", "Box", "House"]

PYTHON: Final = "/usr/bin/python3"
"""That of the machine: sandboxes see no other."""


class House(Household[NamespaceRuntime]):
    """With namespaces."""

    def open_runtime(self) -> NamespaceRuntime:
        return NamespaceRuntime(
            ProxyGateway(self.served.runtime),
            self.home,
            kitted(public_roots()),
            guarded=(self.served.runtime, self.served.state),
        )

    def spec(self, name: str, **values: object) -> Spec:
        wanted: dict[str, object] = {"image": "host", "ports": (self.upstream.port,), **values}
        return Spec(name=name, **wanted)  # type: ignore[arg-type]

    def box(self, name: str, **values: object) -> Box:
        """A sandbox that runs."""
        return Box(self, self._begun(name, **values))


class Box(Room[House]):
    """One sandbox of namespaces."""

    def python(self, program: str, *words: str, **values: object) -> ExecResult:
        return self.run(PYTHON, "-c", program, *words, **values)
