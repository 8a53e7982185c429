"""What kinds of sandboxes are held to: the type checker reads this file, too."""

from __future__ import annotations

from egress.runtime.docker.runtime import DockerRuntime
from egress.runtime.fake import FakeProcess, FakeRuntime
from egress.runtime.protocol import Runtime, RuntimeProcess, provision_minimal
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import Admission
from egress.runtime.supervised_process import SupervisedProcess


def held(runtime: Runtime, process: RuntimeProcess) -> None:
    """Takes whatever keeps both protocols."""


def containers(runtime: DockerRuntime, process: SupervisedProcess) -> None:
    held(runtime, process)


def in_memory(runtime: FakeRuntime, process: FakeProcess) -> None:
    held(runtime, process)


def test_every_kind_has_what_the_protocol_has() -> None:
    wanted = {name for name in vars(Runtime) if not name.startswith("_")}
    for kind in (DockerRuntime, FakeRuntime):
        assert wanted <= set(dir(kind))


def test_the_least_outfit_names_the_proxy() -> None:
    outfit = provision_minimal(Admission("one", "certificate"), ProxyAddress("198.18.0.2"))
    assert set(outfit.variables.values()) == {"http://198.18.0.2:3128"}
    assert {"HTTPS_PROXY", "https_proxy"} <= outfit.variables.keys()
