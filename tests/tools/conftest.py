"""What the tests of tools share: an image, the tools as they are fetched, and labs of both kinds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images import product_images
from tests.conftest import LEFT_OUT, UNDER_CI
from tests.container.conftest import one_at_a_time
from tests.proxy.clients.cache import Fetched
from tests.runtime.conftest import answering, engine
from tests.runtime.namespace.conftest import namespaces, refusal
from tests.tools.fetched import IN_SANDBOX, NEWER_NODE, PYTHON, seen_at
from tests.tools.tool_lab import RUNTIMES, Around, RuntimeKind, ToolLab
from tests.tools.vendor_server import Vendor, may_listen

__all__ = ["answering", "engine", "namespaces", "refusal"]

type LabMaker = Callable[..., ToolLab]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "works_with(tool, *facts): what docs/works-with.md says of a tool")


def everywhere(smoke: RuntimeKind | None = None) -> pytest.MarkDecorator:
    """Run a test in both runtimes by night, and in the gate in one of them, or in none."""
    cases = [
        pytest.param(kind, marks=() if kind == smoke else pytest.mark.nightly, id=kind) for kind in RUNTIMES
    ]
    return pytest.mark.parametrize("runtime", cases)


@pytest.fixture(scope="session")
def sandbox_image(answering: DockerEngine | None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The sandbox image as `egress image build sandbox` makes it."""
    if answering is None:
        return ""
    with one_at_a_time(tmp_path_factory):
        return product_images.sandbox_image(answering)


@pytest.fixture
def make_lab(request: pytest.FixtureRequest, runtime: RuntimeKind, tmp_path: Path) -> Iterator[LabMaker]:
    """Makes labs in the runtime of this test; leaves the test out, with a word, where that is not there."""
    if not may_listen():
        _leave_out(request, "to be root, for stand-ins on port 443")
    image = "host"
    if runtime == "docker":
        request.getfixturevalue("engine")
        image = request.getfixturevalue("sandbox_image")
    else:
        request.getfixturevalue("namespaces")
    with ExitStack() as labs:

        def make(
            vendors: Mapping[str, Vendor],
            rules: str,
            secrets: Mapping[str, str],
            *fetched: Fetched,
            path: Sequence[str] = (),
            more_hosts: Mapping[str, str] | None = None,
            lent: Mapping[Path, str] | None = None,
        ) -> ToolLab:
            for each in (NEWER_NODE, *fetched):
                each.require(request)
            around = Around(
                image=image,
                mounts=[
                    *_python(),
                    *_lent(request, lent or {}),
                    *((each.folder, seen_at(each)) for each in (NEWER_NODE, *fetched)),
                ],
                path=[
                    *(f"{seen_at(each)}/{place}" for each in fetched for place in path),
                    f"{seen_at(NEWER_NODE)}/node_modules/.bin",
                ],
                env=_python_variables() if PYTHON in fetched else {},
            )
            lab = ToolLab(tmp_path, runtime, vendors, rules, secrets, around, more_hosts or {})
            return labs.enter_context(lab)

        yield make


def _python() -> tuple[tuple[Path, str], ...]:
    """The Python that runs the tests, where a sandbox does not have it anyway."""
    own = Path(sys.base_prefix)
    return () if own == Path("/usr") else ((own, f"{IN_SANDBOX}/python"),)


def _lent(request: pytest.FixtureRequest, folders: Mapping[Path, str]) -> Iterator[tuple[Path, str]]:
    """Toolchains of this machine, or the test is left out with a word."""
    for folder, place in folders.items():
        if not folder.is_dir():
            _leave_out(request, place.rpartition("/")[2])
        yield folder, place


def _python_variables() -> dict[str, str]:
    """Where that Python finds what was fetched for it, and its own library: it stands in another place."""
    return {"PYTHONPATH": f"{seen_at(PYTHON)}/packages", "LD_LIBRARY_PATH": f"{IN_SANDBOX}/python/lib"}


def _leave_out(request: pytest.FixtureRequest, what: str) -> None:
    if UNDER_CI:
        pytest.fail(f"needs {what}", pytrace=False)
    request.node.user_properties.append((LEFT_OUT, what))
    pytest.skip(f"needs {what}")
