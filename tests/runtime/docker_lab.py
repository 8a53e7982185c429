r"""A proxy that runs, a stand-in for somebody's API, and a runtime of containers between them.

with House(tmp_path) as house:
box = house.box("one")
assert box.get("/x").stdout_bytes == b"hello from outside\n"
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from egress.ca import public_roots
from egress.runtime.docker import image_tree
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.runtime import DockerRuntime
from egress.runtime.errors import ImageMissingError
from egress.runtime.provisioning import trust_kit_provisioner
from egress.runtime.proxy_client import ControlProxyClient
from egress.runtime.spec import Spec
from tests.runtime.sandbox_lab import NAME, SECRET, LabSandbox, SandboxLab

__all__ = ["NAME", "SECRET", "DockerLab", "DockerLabSandbox", "image"]

PROGRAMS: Final = (
    *("sh", "cat", "chmod", "curl", "cut", "date", "dd", "echo", "env", "false", "find", "getent", "grep"),
    *("head", "id", "ln", "ls", "mkdir", "mkfifo", "mount", "mv", "pwd", "readlink", "rm", "setsid", "sleep"),
    *("sort", "stat", "stty", "tar", "test", "touch", "tr", "true", "tty", "uname", "unshare", "wc"),
)


def image(engine: DockerEngine) -> str:
    """A small system made of what this machine has; made once per content."""
    with image_tree.spool_archive(image_tree.small_system_tree(PROGRAMS)) as (archive, digest):
        name = f"egress-test:{digest[:16]}"
        try:
            engine.image_id(name)
        except ImageMissingError:
            engine.import_image(archive, "egress-test", digest[:16])
    return name


class DockerLab(SandboxLab[DockerRuntime]):
    """With containers."""

    def __init__(self, folder: Path, image: str, *, ready: int = 0) -> None:
        super().__init__(folder)
        self.image = image
        self._ready = ready

    def open_runtime(self) -> DockerRuntime:
        return DockerRuntime(
            ControlProxyClient(self.served.runtime),
            self.home,
            trust_kit_provisioner(public_roots()),
            ready=self._ready,
            guarded=(self.served.runtime, self.served.state),
        )

    def spec(self, name: str, **values: object) -> Spec:
        return Spec(name=name, image=self.image, ports=(self.upstream.port,), **values)  # type: ignore[arg-type]

    def box(self, name: str, **values: object) -> DockerLabSandbox:
        """A sandbox that runs."""
        return DockerLabSandbox(self, self._begun(name, **values))

    def keep_networks(self, count: int) -> None:
        """Have so many networks with a door ready, from now on."""
        self.runtime._cells.prewarmer.want(count)

    def until_ready(self) -> None:
        """Wait until all is there that is made ahead."""
        assert self.runtime._cells.prewarmer.until_ready()
        assert self.runtime._pool.until_ready()

    def container(self, name: str) -> str:
        """The id of a sandbox's container."""
        return self.runtime._register.get(name).container


class DockerLabSandbox(LabSandbox[DockerLab]):
    """One container."""
