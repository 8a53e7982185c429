"""Package managers are asked in their own words; their answers are taken apart, and none of them is fatal."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from egress.cli import package_registries
from egress.cli.package_registries import ToolAnswer, ask_tools
from egress.cli.url_host import parse_host
from egress.environment import read_environment
from egress.secrets.program_lookup import ProgramLookup

PIP_HELP = """Usage: pip install [options]

  -i, --index-url <url>       Base URL of the Index (default https://index.example.com/simple). More text
  --extra-index-url <url>     Extra URLs (default no)
"""
REPORT = '{"install": [{"download_info": {"url": "https://files.example.com/p/pip-1.whl"}}, {}, 1]}'
CARGO = r"""
[ "$1" = generate-lockfile ] && [ "$3" = --manifest-path ] && [ -f "${4%/*}/src/lib.rs" ] || exit 1
grep -qx '\[workspace\]' "$4" || exit 1
folder="$CARGO_HOME/registry/index/index.example.org-0123456789abcdef"
mkdir -p "$folder"
echo '{"dl": "https://crates.example.org/{crate}/{version}", "api": null}' > "$folder/config.json"
"""
UV = """
case "$*" in
  *--emit-index-url*) echo '--index-url https://uv.example.com/simple'; echo 'pip==1';;
  *pylock*) echo 'wheels = [{ url = "https://wheels.example.com/pip.whl" }]';;
esac
"""


class Bin:
    """A folder of tools that say what a test wants, and keep what they were asked."""

    def __init__(self, root: Path) -> None:
        self.folder, self.home = root / "bin", root / "home"
        self.folder.mkdir()
        self.home.mkdir()
        for name in ("cat", "grep", "mkdir", "sleep", "pwd"):
            (self.folder / name).symlink_to(shutil.which(name) or "")

    def tool(self, name: str, script: str) -> None:
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "$(pwd) $*" >> {self.folder}/asked\n{script}\n', encoding="utf-8")
        path.chmod(0o755)

    def ask(self, *, offline: bool = False, **environ: str) -> list[tuple[str, str, str]]:
        found = ask_tools({"PATH": str(self.folder), "HOME": str(self.home), **environ}, offline=offline)
        return [(each.tool, each.role, each.url) for each in found]

    @property
    def asked(self) -> list[str]:
        path = self.folder / "asked"
        return path.read_text("utf-8").splitlines() if path.exists() else []


@pytest.fixture
def tools(tmp_path: Path) -> Bin:
    return Bin(tmp_path)


def test_a_machine_without_tools_says_nothing(tools: Bin) -> None:
    assert tools.ask() == []
    assert ask_tools({}) == ()
    assert ask_tools({"PATH": ".:bin"}) == ()


def test_pip_names_its_index_and_the_index_its_files(tools: Bin) -> None:
    tools.tool("python3", f"case \"$*\" in *--help) cat <<'E'\n{PIP_HELP}\nE\n;; *) echo '{REPORT}';; esac")
    assert tools.ask() == [
        ("pip", "index", "https://index.example.com/simple"),
        ("pip", "files", "https://files.example.com/p/pip-1.whl"),
    ]


def test_another_pip_is_asked_where_python_has_none(tools: Bin) -> None:
    tools.tool("python3", "exit 1")
    tools.tool("pip3", f"cat <<'E'\n{PIP_HELP}\nE")
    assert tools.ask(offline=True) == [("pip", "index", "https://index.example.com/simple")]


def test_uv_is_asked_where_there_is_no_pip(tools: Bin) -> None:
    tools.tool("uv", UV)
    assert tools.ask() == [
        ("pip", "index", "https://uv.example.com/simple"),
        ("pip", "files", "https://wheels.example.com/pip.whl"),
    ]


def test_npm_names_its_registry_and_the_registry_its_files(tools: Bin) -> None:
    tools.tool(
        "npm", '[ "$1" = config ] && echo https://npm.example.com/ || echo https://t.example.com/npm.tgz'
    )
    assert tools.ask() == [
        ("npm", "index", "https://npm.example.com/"),
        ("npm", "files", "https://t.example.com/npm.tgz"),
    ]


def test_cargo_is_asked_with_its_sources_and_without_its_credentials(tools: Bin) -> None:
    own = tools.home / ".cargo"
    own.mkdir()
    (own / "config.toml").write_text("[source.crates-io]\n")
    (own / "credentials.toml").write_text("secret")
    tools.tool("cargo", f'echo "$(cd $CARGO_HOME; echo *)" > {tools.folder}/seen\n{CARGO}')
    assert tools.ask() == [
        ("cargo", "index", "https://index.example.org/"),
        ("cargo", "files", "https://crates.example.org/{crate}/{version}"),
    ]
    assert (tools.folder / "seen").read_text() == "config.toml\n"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (
            "https://a.example,direct\nsum.example\n",
            [("index", "https://a.example"), ("files", "https://sum.example/")],
        ),
        (
            "https://a.example|https://b.example\noff\n",
            [("index", "https://a.example"), ("index", "https://b.example")],
        ),
        (
            "https://a.example\nsum.example+ab+cd https://s.example/x\n",
            [("index", "https://a.example"), ("files", "https://s.example/x")],
        ),
        ("direct\nsum.example\n", []),
        ("off\n", []),
        ("", []),
    ],
)
def test_go_names_its_proxies_and_its_checksums(tools: Bin, said: str, found: list[tuple[str, str]]) -> None:
    tools.tool("go", f"cat <<'E'\n{said}E")
    assert tools.ask() == [("go", *each) for each in found]


def test_apt_names_each_archive_once(tools: Bin) -> None:
    said = "http://a.example/debian/\nhttp://a.example/debian/\ncdrom:[x]/\nfile:/srv/\nhttps://b.example/s\n"
    tools.tool("apt-get", f"cat <<'E'\n{said}E")
    assert tools.ask() == [
        ("apt", "index", "http://a.example/debian/"),
        ("apt", "index", "https://b.example/s"),
    ]


def test_offline_nothing_is_asked_that_needs_a_network(tools: Bin) -> None:
    for name in ("python3", "pip3", "pip", "uv", "npm", "cargo", "go", "apt-get"):
        tools.tool(name, f"cat <<'E'\n{PIP_HELP}\nE")
    tools.ask(offline=True)
    words = {line.partition(" ")[2] for line in tools.asked}
    assert words == {
        "-I -m pip install --help",
        "config get registry",
        "env GOPROXY GOSUMDB",
        "indextargets --format $(REPO_URI)",
    }


def test_offline_cargo_is_known_by_the_indexes_that_it_has_asked(tools: Bin) -> None:
    tools.tool("cargo", "exit 1")
    index = tools.home / ".cargo/registry/index/used.example.org-0123456789abcdef"
    index.mkdir(parents=True)
    (index / "config.json").write_text('{"dl": 1}')
    assert tools.ask(offline=True) == [("cargo", "index", "https://used.example.org/")]


def test_no_tool_is_asked_in_the_working_directory(
    tools: Bin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its .npmrc and pip.conf are of whoever wrote the folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("python3", "pip3", "pip", "uv", "npm", "go", "apt-get", "cargo"):
        tools.tool(name, "")
    tools.ask()
    assert tools.asked
    assert {line.split()[0] for line in tools.asked} == {"/"}


@pytest.mark.skipif(shutil.which("rustup") is None, reason="needs rustup")
def test_the_folder_of_temporary_files_does_not_choose_the_cargo_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any user may write into it, and rustup runs the program that a file above its own folder names."""
    shared, toolchain, ran = tmp_path / "shared", tmp_path / "toolchain", tmp_path / "ran"
    shared.mkdir()
    (toolchain / "bin").mkdir(parents=True)
    for name in ("cargo", "rustc"):
        path = toolchain / "bin" / name
        path.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
        path.chmod(0o755)
    (shared / "rust-toolchain.toml").write_text(f'[toolchain]\npath = "{toolchain}"\n')
    environ = {**read_environment(), "CARGO_NET_OFFLINE": "true"}
    # The file does what it says, where cargo is started beside it.
    subprocess.run(["cargo", "--version"], cwd=shared, env=environ, check=False, capture_output=True)
    assert ran.exists()
    ran.unlink()
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    lookup = ProgramLookup.of_environ(environ)
    package_registries._cargo(package_registries._Tools(environ, lookup, is_offline=False))
    assert not ran.exists()


@pytest.mark.parametrize(
    "script", ["exit 1", "echo '{'", "echo nonsense", "printf '\\377\\0'", "kill $$", "echo '[]'", "sleep 30"]
)
def test_a_tool_that_is_broken_or_slow_gives_no_usable_answer(
    tools: Bin, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_registries, "ANSWER_TIMEOUT", 0.3)
    for name in ("python3", "pip3", "pip", "uv", "npm", "cargo", "go", "apt-get"):
        tools.tool(name, script)
    assert [url for _, _, url in tools.ask() if parse_host(url)] == []


def test_an_answer_does_not_show_its_url() -> None:
    answer = ToolAnswer("pip", "index", "https://user:sentinel@index.example.com/", "`pip`")
    assert "sentinel" not in repr(answer)


REAL = {"pip": "python3", "npm": "npm", "go": "go", "apt": "apt-get"}


@pytest.mark.parametrize("tool", REAL)
def test_the_tools_of_this_machine_are_understood(tool: str) -> None:
    """Their own words, without a network: a new version that speaks differently would be noticed."""
    path = os.environ["PATH"]  # noqa: TID251 - the tools of the developer are meant
    if shutil.which(REAL[tool]) is None:
        pytest.skip(f"{REAL[tool]} is not there")
    found = [
        each
        for each in ask_tools({"PATH": path, "HOME": str(Path.home())}, offline=True)
        if each.tool == tool
    ]
    if tool == "pip" and not found:
        pytest.skip("this Python has no pip")
    assert [each for each in found if each.role == "index"]
