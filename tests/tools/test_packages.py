"""Package managers install a package from a registry, in a sandbox whose rules only let it read there.

The registry is a stand-in under a name of its own, which each is told in its own words: which registry is
asked is its user's business, and nothing that Egress wants set.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.proxy.clients import cache
from tests.proxy.clients.cache import Fetched
from tests.proxy.clients.standins import crate_registry, debian, go_modules, npm_registry, python_index
from tests.proxy.clients.standins.static_files import Files
from tests.tools.conftest import LabMaker, everywhere
from tests.tools.fetched import HERE, IN_SANDBOX, PYTHON, PYTHON_PROGRAM, seen_at
from tests.tools.standins.shelf import Shelf
from tests.tools.tool import Tool, pinned, printed
from tests.tools.tool_lab import ToolLab

FAMILY: Final = "Package managers"
HOST: Final = "packages.example.test"
URL: Final = f"https://{HOST}"
CONTENT: Final = b"installed in a sandbox\n"
INSTALLS: Final = "a package is installed"
PINS: Final = HERE / "requirements.lock"


_SEARCHED: Final = f"{os.environ.get('PATH', '')}:/usr/local/go/bin"  # noqa: TID251 - where the tests' user has them


@functools.cache
def _toolchain(program: str, *asked: str) -> Path:
    """The folder that a compiler says is its own; nothing is there where it is missing."""
    found = shutil.which(program, path=_SEARCHED)
    if found is None:
        return Path("/nowhere")
    ran = subprocess.run([found, *asked], capture_output=True, text=True, check=True)
    return Path(ran.stdout.strip())


def rust() -> Path:
    return _toolchain("rustc", "--print", "sysroot")


def go() -> Path:
    return _toolchain("go", "env", "GOROOT")


def _first(toolchain: Callable[[], Path], program: str, asked: str) -> Callable[[], str]:
    """The version of a program whose place is only looked for when it is asked."""

    def ask() -> str:
        return printed(toolchain() / program, asked)()

    return ask


def _preset(name: str, *parameters: str) -> str:
    return f"`use: [{{{name}: {{{', '.join(parameters)}}}}}]`"


PIP = Tool("pip", FAMILY, pinned(PINS, "pip"), rules=_preset("python-index", "index: ...", "files: ..."))
UV = Tool("uv", FAMILY, pinned(PINS, "uv"), rules=_preset("python-index", "index: ...", "files: ..."))
NPM = Tool("npm", FAMILY, printed("npm", "--version"), rules=_preset("npm-index", "registry: ..."))
PNPM = Tool(
    "pnpm",
    FAMILY,
    printed(cache.PNPM.folder / "node_modules/.bin/pnpm", "--version"),
    rules=_preset("npm-index", "registry: ..."),
)
CARGO = Tool(
    "cargo",
    FAMILY,
    _first(rust, "bin/cargo", "--version"),
    rules=_preset("cargo-index", "index: ...", "files: ..."),
)
GO = Tool("go", FAMILY, _first(go, "bin/go", "version"), rules=_preset("go-proxy", "proxies: [...]"))
APT = Tool("apt", FAMILY, printed("apt-get", "--version"), rules=_preset("apt-archive", "archives: [...]"))


def serve(
    make_lab: LabMaker, files: Files, preset: str, *fetched: Fetched, lent: Mapping[Path, str] | None = None
) -> ToolLab:
    """A registry, and rules that let a sandbox read there."""
    lab: ToolLab = make_lab({HOST: Shelf(files)}, f"use: [{preset}]", {}, *fetched, lent=lent or {})
    return lab


def run(lab: ToolLab, script: str, env: Mapping[str, str]) -> None:
    ran = lab.run("sh", "-ec", script, env={"HOME": "/workspace", **env})
    assert ran.status == 0, ran.said + lab.told()
    assert lab.server.calls, ran.said
    assert {call.status for call in lab.server.calls} <= {200, 404}, lab.told()


PYTHON_INDEX: Final = f"python-index: {{index: {HOST}, files: [{HOST}]}}"


@PIP.proves(INSTALLS)
@everywhere(smoke="docker")
@pytest.mark.timeout(900)
def test_pip_installs_a_package(make_lab: LabMaker) -> None:
    lab = serve(make_lab, python_index.index_files(CONTENT), PYTHON_INDEX, PYTHON)
    env = {"PIP_INDEX_URL": f"{URL}/simple/", "PIP_CONFIG_FILE": "/dev/null"}
    run(lab, f"{PYTHON_PROGRAM} -m pip install --target there {python_index.PACKAGE}", env)
    assert (lab.workspace / "there" / python_index.PACKAGE / "content").read_bytes() == CONTENT


@UV.proves(INSTALLS)
@everywhere()
@pytest.mark.timeout(400)
def test_uv_installs_a_package(make_lab: LabMaker) -> None:
    lab = serve(make_lab, python_index.index_files(CONTENT), PYTHON_INDEX, PYTHON)
    env = {"UV_DEFAULT_INDEX": f"{URL}/simple/", "UV_PYTHON_DOWNLOADS": "never"}
    uv = f"{seen_at(PYTHON)}/packages/bin/uv"
    run(lab, f"{uv} pip install --python {PYTHON_PROGRAM} --target there {python_index.PACKAGE}", env)
    assert (lab.workspace / "there" / python_index.PACKAGE / "content").read_bytes() == CONTENT


@NPM.proves(INSTALLS)
@everywhere(smoke="namespace")
@pytest.mark.timeout(400)
def test_npm_installs_a_package(make_lab: LabMaker) -> None:
    lab = serve(make_lab, npm_registry.registry_files(HOST, CONTENT), f"npm-index: {{registry: {HOST}}}")
    run(lab, f"npm install {npm_registry.PACKAGE}", {"npm_config_registry": f"{URL}/"})
    assert (lab.workspace / "node_modules" / npm_registry.PACKAGE / "content").read_bytes() == CONTENT


@PNPM.proves(INSTALLS)
@everywhere()
@pytest.mark.timeout(400)
def test_pnpm_installs_a_package(make_lab: LabMaker) -> None:
    files = npm_registry.registry_files(HOST, CONTENT)
    lab = serve(make_lab, files, f"npm-index: {{registry: {HOST}}}", cache.PNPM)
    pnpm = f"{seen_at(cache.PNPM)}/node_modules/.bin/pnpm"
    run(lab, f"{pnpm} add {npm_registry.PACKAGE}", {"npm_config_registry": f"{URL}/"})
    assert (lab.workspace / "node_modules" / npm_registry.PACKAGE / "content").read_bytes() == CONTENT


@CARGO.proves(INSTALLS)
@everywhere()
@pytest.mark.timeout(400)
def test_cargo_fetches_a_crate(make_lab: LabMaker) -> None:
    place = f"{IN_SANDBOX}/rust"
    files = crate_registry.registry("/index", URL)
    rules = f"cargo-index: {{index: {HOST}, files: [{HOST}]}}"
    lab = serve(make_lab, files, rules, lent={rust(): place})
    (lab.workspace / "src").mkdir()
    (lab.workspace / "src/lib.rs").touch()
    (lab.workspace / "Cargo.toml").write_text(crate_registry.USER, "utf-8")
    cargo = f"PATH={place}/bin:$PATH cargo"
    (lab.workspace / "src").chmod(0o777)
    run(lab, f"{cargo} fetch --config 'registries.lab.index=\"sparse+{URL}/index/\"'", {})
    (source,) = (lab.workspace / ".cargo/registry/src").glob("*/tiny-0.1.0/src/lib.rs")
    assert source.read_bytes() == crate_registry.SOURCE


@GO.proves(INSTALLS)
@everywhere()
@pytest.mark.timeout(400)
def test_go_downloads_a_module(make_lab: LabMaker) -> None:
    place = f"{IN_SANDBOX}/go"
    lab = serve(make_lab, go_modules.modules("/go"), f"go-proxy: {{proxies: [{HOST}]}}", lent={go(): place})
    env = {"GOPROXY": f"{URL}/go", "GONOSUMDB": "*", "GOFLAGS": "-mod=mod -modcacherw"}
    run(lab, f"{place}/bin/go mod download {go_modules.MODULE}@v1.0.0", env)
    found = lab.workspace / "go/pkg/mod" / f"{go_modules.MODULE}@v1.0.0/tiny.go"
    assert found.read_bytes() == go_modules.SOURCE


@APT.proves("lists, and a package, in folders of the user")
@everywhere()
@pytest.mark.timeout(400)
def test_apt_fetches_lists_and_a_package(make_lab: LabMaker) -> None:
    """In a root of its own: the user of a sandbox is not root."""
    lab = serve(make_lab, debian.archive("/debian", CONTENT), f"apt-archive: {{archives: [{HOST}]}}")
    for folder in debian.FOLDERS:
        (lab.workspace / folder).mkdir(parents=True, exist_ok=True)
    (lab.workspace / "var/lib/dpkg/status").touch()
    (lab.workspace / "etc/apt/sources.list").write_text(debian.sources(f"{URL}/debian"), "utf-8")
    (lab.workspace / "apart").write_text(debian.APART.format(home="/workspace"), "utf-8")
    for path in lab.workspace.rglob("*"):
        path.chmod(0o777)
    apt = "apt-get --config-file=/workspace/apart"
    run(lab, f"{apt} update --error-on=any; {apt} download tiny", {})
    assert [path.read_bytes() for path in lab.workspace.glob("tiny*.deb")] == [debian.deb(CONTENT)]
