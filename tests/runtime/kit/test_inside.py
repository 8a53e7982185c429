"""Clients inside of sandboxes: in a container and in namespaces, behind a real door, without rights.

Each asks for a page with nothing said about proxies or trust, as `egress doctor --image` has them ask. That
counts which reached the server with the credential, and which the client showed, masked. It is tried with all
variables of the kit; without those that name the proxy, where the name leads to the door and TLS says where
to; and where nothing of the image is writable.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from egress.cli.sandboxes.stacks.known_stacks import STACKS, Stack
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.kit.distro_paths import overmounts
from egress.runtime.kit.kit import DEFAULT_FOLDER
from egress.runtime.kit.paths import KitPaths
from egress.runtime.kit.variables import PROXY_VARIABLES
from egress.runtime.spec import ExecResult, Mount, SandboxLimits
from tests.proxy.clients import cache
from tests.runtime import docker_lab as containers
from tests.runtime.conftest import answering, engine
from tests.runtime.kit import host_programs_image
from tests.runtime.namespace import namespace_lab as spaces
from tests.runtime.namespace.conftest import namespaces, refusal
from tests.runtime.sandbox_lab import NAME, SECRET

__all__ = ["answering", "engine", "namespaces", "refusal"]

ROOT: Final = Path(__file__).parents[3]
GUIDE: Final = ROOT / "docs/guides/clients.md"

ONCE: Final = frozenset({"gcloud", "chromium", "firefox"})
"""Those that take seconds to start.

`tests/cli/sandboxes/test_image_doctor.py` runs them, and some test here.
"""
CLIENTS: Final = tuple(stack for stack in STACKS if stack.name not in ONCE)
CHROMIUM: Final = next(stack for stack in STACKS if stack.name == "chromium")
SILENT: Final = frozenset({"git", "pip", "uv", "npm", "cargo", "aws"})
"""Those that ask for something else than a page, and do not show what they were given instead."""
FETCHED: Final = frozenset({"python urllib", "python requests", "python httpx", "pip", "uv"})
"""They come from an index, and the tests of clients fetch them."""

MASKED: Final = f"Bearer {'*' * len(SECRET)}"

WITHOUT: Final = f"""
unset {" ".join(variable.name for variable in PROXY_VARIABLES)}
JAVA_TOOL_OPTIONS=$(printf '%s' "$JAVA_TOOL_OPTIONS" | tr ' ' '\\n' | grep -v -i proxy | tr '\\n' ' ')
export JAVA_TOOL_OPTIONS
"""
ABSENT: Final = 99
"""The status of a client that is not there."""
PATIENCE: Final = 120.0
WORDS: Final = {"proxy": ("connect", "absolute"), "name": ("sni", "host")}
"""What the guide says, and what the audit log then says."""
HERE: Final = 'cd "$(mktemp -d)" && '


type House = containers.DockerLab | spaces.NamespaceLab
type Box = containers.DockerLabSandbox | spaces.NamespaceLabSandbox


@dataclass(frozen=True, slots=True)
class Site:
    """Sandboxes of one kind, in which the programs of this machine are to be found."""

    house: House
    mounts: tuple[Mount, ...]
    path: str

    @contextmanager
    def box(self, name: str, **values: object) -> Iterator[Box]:
        limits = SandboxLimits(memory_mib=4096, temporary_mib=1024)
        try:
            yield self.house.box(name, mounts=self.mounts, limits=limits, **values)
        finally:
            self.house.runtime.remove(name)


@dataclass(frozen=True, slots=True)
class Way:
    """How clients are tried."""

    name: str
    before: str = ""
    clients: tuple[Stack, ...] = CLIENTS
    read_only: bool = False


WAYS: Final = (
    Way("all-variables"),
    Way("no-proxy-variables", before=WITHOUT),
    Way("read-only", clients=(*CLIENTS, CHROMIUM), read_only=True),
)


@dataclass(frozen=True, slots=True)
class Came:
    """What came of one client."""

    wrong: str
    entry: frozenset[str]
    """How it named where it wants to go, as the audit log has it."""


@pytest.fixture(scope="module")
def contained(
    answering: DockerEngine | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[containers.DockerLab | None]:
    if answering is None:
        yield None
        return
    with containers.DockerLab(
        tmp_path_factory.mktemp("house"), host_programs_image.image(answering)
    ) as house:
        yield house


@pytest.fixture(scope="module")
def spaced(refusal: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[spaces.NamespaceLab | None]:
    if refusal:
        yield None
        return
    with spaces.NamespaceLab(tmp_path_factory.mktemp("house")) as house:
        yield house


@pytest.fixture
def container(engine: DockerEngine, contained: containers.DockerLab | None, venvs: tuple[Path, ...]) -> Site:
    assert contained is not None
    mounts = (*host_programs_image.lent(), *host_programs_image.python(venvs, host_programs_image.LENT))
    return Site(contained, mounts, search(venvs))


@pytest.fixture
def namespace(namespaces: None, spaced: spaces.NamespaceLab | None, venvs: tuple[Path, ...]) -> Site:
    assert spaced is not None
    return Site(spaced, host_programs_image.python(venvs, ("/usr/",)), search(venvs))


@pytest.fixture
def venvs(request: pytest.FixtureRequest) -> tuple[Path, ...]:
    """Pythons with requests, httpx and uv as they are published, which bring roots of their own."""
    cache.PYTHON.require(request)
    return (Path(sys.prefix), cache.PYTHON.folder / "venv")


def search(venvs: tuple[Path, ...]) -> str:
    return ":".join([*(f"{venv}/bin" for venv in venvs), "/usr/bin", "/bin"])


# The table ----------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_clients_in_a_container_reach_the_server_with_the_credential(container: Site, way: Way) -> None:
    assert_all_get_through(tried(container, way), way)


# All variables without more say nothing new here: read-only has them too, and containers have all three.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS[1:], ids=lambda way: way.name)
def test_clients_in_namespaces_reach_the_server_with_the_credential(namespace: Site, way: Way) -> None:
    assert_all_get_through(tried(namespace, way), way)


def assert_all_get_through(found: Mapping[str, Came], way: Way) -> None:
    assert {client: came.wrong for client, came in found.items() if came.wrong} == {}
    assert set(found) >= {*FETCHED, *host_programs_image.installed()}
    told = told_in_the_guide()
    for client, came in found.items():
        _, with_variables, without = told[client]
        cell = without if way.before else with_variables
        ways = {entry for word, entries in WORDS.items() if word in cell for entry in entries}
        assert came.entry <= ways, f"{client} says {cell!r} in docs/guides/clients.md"


def tried(site: Site, way: Way) -> dict[str, Came]:
    """Have every client ask that is there, a few at a time in one sandbox."""
    with site.box(way.name, read_only=way.read_only) as box:
        assert box.run("id", "-u").text != "0\n"

        def ask(client: Stack) -> ExecResult:
            at, page = f"{NAME}:{site.house.upstream.port}", _page(way, client)
            told = {"AT": at, "NAME": page, "URL": f"https://{at}/{page}"}
            # Where the rest is read-only, nothing in /tmp can be run, and go runs what it made.
            around = {"HOME": "/workspace", "TMPDIR": "/workspace", "PATH": site.path}
            script = f"({client.version}) >/dev/null 2>&1 || exit {ABSENT}\n{way.before}\n{HERE}{client.ask}"
            return box.sh(script, env={**told, **around}, timeout=PATIENCE)

        with ThreadPoolExecutor(4) as pool:
            results = dict(zip(way.clients, pool.map(ask, way.clients), strict=True))
    return {
        client.name: _came(site.house, _page(way, client), client, result)
        for client, result in results.items()
        if result.exit_code != ABSENT
    }


def _page(way: Way, client: Stack) -> str:
    return f"repeat/{way.name}/{client.name.replace(' ', '-')}"


def _came(house: House, page: str, client: Stack, result: ExecResult) -> Came:
    mine = re.compile(rf"/{re.escape(page)}(?:$|[/.?])")
    seen = [each for each in house.upstream.seen if mine.match(each.path)]
    said = (result.stdout_bytes + result.stderr_bytes).decode("utf-8", "replace")
    if not seen:
        return Came(f"it did not reach the server: {said[-300:]}", frozenset())
    wrong = ""
    if any(each.authorization != f"Bearer {SECRET}" for each in seen):
        wrong = "it came without the credential"
    elif SECRET in said:
        wrong = "it was shown the credential"
    elif client.name not in SILENT and MASKED not in said:
        wrong = f"it shows no answer: {said[-300:]}"
    entries = (
        each["entry"] for each in _exchanges(house, len(house.upstream.seen)) if mine.match(str(each["path"]))
    )
    return Came(wrong, frozenset(map(str, entries)))


def _exchanges(house: House, count: int) -> list[dict[str, object]]:
    return house.served.recorded("exchange", count)


# What the guide says ------------------------------------------------------------------------------


def told_in_the_guide() -> dict[str, list[str]]:
    """The rows of the table of stacks, by their names."""
    text = GUIDE.read_text("utf-8").partition("## In a sandbox\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    return {row[0]: row for row in rows[2:]}


def test_the_guide_has_a_row_for_each_stack() -> None:
    assert list(told_in_the_guide()) == [stack.name for stack in STACKS]


# What is mounted ----------------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_mounted_in_a_container_is_the_kit_and_cannot_be_written(
    container: Site, read_only: bool
) -> None:
    assert_mounted(container, read_only)


@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_mounted_in_namespaces_is_the_kit_and_cannot_be_written(
    namespace: Site, read_only: bool
) -> None:
    assert_mounted(namespace, read_only)


LOOK: Final = """
while read -r source target; do
  cmp -s "$source" "$target" || echo "$target is another file"
  if (echo x >>"$target") 2>/dev/null || rm -f "$target" 2>/dev/null; then echo "$target was written"; fi
done
"""


def assert_mounted(site: Site, read_only: bool) -> None:
    """A user of the sandbox finds each file of the kit where the programs of some distribution look."""
    lines = "".join(f"{each.source} {each.target}\n" for each in overmounts(KitPaths(DEFAULT_FOLDER)))
    with site.box("mounted", read_only=read_only) as box:
        assert box.sh(LOOK, input=lines.encode()).text == ""
