"""Ask the package managers of this machine which registries they use, for `egress init`.

Theory of operation. A fresh machine has no configuration to read: its registries are compiled into pip, npm,
cargo and go. So each tool is asked in its own words, all at the same time and away from the working
directory, whose files somebody else may have written. Some answers need the network: where an index keeps its
files is known to the index alone. Every answer is one or more URLs, of which only the hosts are used later. A
tool that is missing, slow or talks nonsense gives no answer.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from egress.secrets.program_lookup import ProgramLookup, absolute_only, home_dir

ANSWER_TIMEOUT = 20.0
"""Seconds for one question. A tool that waits longer for its network is given up."""
MAX_ANSWER = 1024 * 1024

# Sure to be in any full mirror: these packages are what the tools themselves need.
_PIP_PACKAGE, _NPM_PACKAGE, _CRATE = "pip", "npm", "cfg-if"

_AROUND = {
    # One line for each option, in English, and no questions.
    "COLUMNS": "1000",
    "LC_ALL": "C",
    "NO_COLOR": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_RETRIES": "0",
    "npm_config_update_notifier": "false",
    "npm_config_fetch_retries": "0",
    "GOTOOLCHAIN": "local",
}
_PIP_DEFAULT = re.compile(r"--index-url <url>\s.*?\(default (https?://\S+?)\)", re.DOTALL)
_UV_INDEX = re.compile(r"^--index-url (\S+)", re.MULTILINE)
_UV_FILE = re.compile(r'\burl = "(https?://[^"]+)"')

Role = Literal["index", "files"]


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A URL that a package manager uses."""

    tool: Literal["pip", "npm", "cargo", "go", "apt"]
    role: Role
    url: str = field(repr=False)
    """As the tool said it: it may hold a password."""
    told_by: str
    """The command, as a person would type it."""


@dataclass(frozen=True, slots=True)
class _Tools:
    """The programs of this machine, and whether they may use the network."""

    environ: Mapping[str, str]
    lookup: ProgramLookup
    is_offline: bool

    def said(self, *words: str, given: str = "", **around: str) -> str:
        """Return what a command prints; empty if it is missing or fails."""
        program = self.lookup.find(words[0])
        if program is None:
            return ""
        try:
            process = subprocess.Popen(
                [program, *words[1:]],
                # Nobody else writes there: tools read settings in their folder and in those above it.
                cwd="/",
                env={**self.environ, **_AROUND, **around},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except (OSError, ValueError):
            return ""
        with process:
            try:
                said, _ = process.communicate(given, ANSWER_TIMEOUT)
            except subprocess.TimeoutExpired:
                # With its children, which would hold its output open.
                os.killpg(process.pid, signal.SIGKILL)
                return ""
        return said[:MAX_ANSWER] if process.returncode == 0 else ""


def ask_tools(environ: Mapping[str, str], *, offline: bool = False) -> tuple[ToolAnswer, ...]:
    """Ask every package manager; the order of the answers is always the same. Never raises."""
    # Without a search path no tool is asked: the user of this environment would not find one either.
    lookup = ProgramLookup(home_dir(environ), absolute_only(environ.get("PATH", "")))
    tools = _Tools(environ, lookup, offline)
    questions: Sequence[Callable[[_Tools], list[ToolAnswer]]] = (_pip, _npm, _cargo, _go, _apt)
    with ThreadPoolExecutor(len(questions)) as pool:
        return tuple(
            answer for answers in pool.map(lambda ask: _answers(ask, tools), questions) for answer in answers
        )


def _answers(ask: Callable[[_Tools], list[ToolAnswer]], tools: _Tools) -> list[ToolAnswer]:
    try:
        return ask(tools)
    except OSError:
        # A full disk, or a file that went away meanwhile: as good as no answer.
        return []


# The tools ------------------------------------------------------------------------------------


def _pip(tools: _Tools) -> list[ToolAnswer]:
    for pip in (("python3", "-I", "-m", "pip"), ("pip3",), ("pip",)):
        found = _PIP_DEFAULT.search(tools.said(*pip, "install", "--help"))
        if found is not None:
            told_by = f"`{' '.join(pip)} install --help`"
            return [ToolAnswer("pip", "index", found[1], told_by), *_pip_files(tools, pip)]
    return _uv(tools)


def _pip_files(tools: _Tools, pip: Sequence[str]) -> Iterator[ToolAnswer]:
    if tools.is_offline:
        return
    with tempfile.TemporaryDirectory(prefix="egress-init-") as folder:
        # Nothing is installed; the folder keeps pip from looking whether it could be.
        words = ("install", "--dry-run", "--quiet", "--no-deps", "--ignore-installed", "--target", folder)
        said = tools.said(*pip, *words, "--report", "-", _PIP_PACKAGE)
    for item in _list(_json(said).get("install")):
        info = item.get("download_info") if isinstance(item, dict) else None
        url = info.get("url") if isinstance(info, dict) else None
        if isinstance(url, str):
            yield ToolAnswer("pip", "files", url, f"`{' '.join(pip)} install --dry-run {_PIP_PACKAGE}`")


def _uv(tools: _Tools) -> list[ToolAnswer]:
    if tools.is_offline:
        return []
    words = ("uv", "pip", "compile", "-", "--quiet", "--no-deps")
    index = _UV_INDEX.search(tools.said(*words, "--emit-index-url", given=_PIP_PACKAGE))
    if index is None:
        return []
    told_by = "`uv pip compile --emit-index-url`"
    files = _UV_FILE.findall(tools.said(*words, "--format", "pylock.toml", given=_PIP_PACKAGE))
    return [
        ToolAnswer("pip", "index", index[1], told_by),
        *(ToolAnswer("pip", "files", url, "`uv pip compile --format pylock.toml`") for url in files),
    ]


def _npm(tools: _Tools) -> list[ToolAnswer]:
    if tools.lookup.find("npm") is None:
        return []
    with tempfile.TemporaryDirectory(prefix="egress-init-") as folder:
        # npm would keep a log and a cache of each question in the home.
        registry = tools.said("npm", "config", "get", "registry", npm_config_cache=folder).strip()
        words = ("npm", "view", _NPM_PACKAGE, "dist.tarball")
        url = "" if tools.is_offline else tools.said(*words, npm_config_cache=folder).strip()
    answers = [ToolAnswer("npm", "index", registry, "`npm config get registry`")] if registry else []
    return (
        [*answers, ToolAnswer("npm", "files", url, f"`{' '.join(words)}`")] if registry and url else answers
    )


def _cargo(tools: _Tools) -> list[ToolAnswer]:
    home = Path(tools.environ.get("CARGO_HOME") or Path(tools.lookup.home) / ".cargo")
    if tools.lookup.find("cargo") is None:
        return []
    if tools.is_offline:
        return list(_cargo_indexes(home, f"{home.name}/registry"))
    with tempfile.TemporaryDirectory(prefix="egress-init-") as folder:
        project, own = Path(folder, "project"), Path(folder, "cargo")
        (project / "src").mkdir(parents=True)
        own.mkdir()
        for name in ("config.toml", "config"):
            # Sources may be replaced there. Credentials stay where they are.
            if (home / name).is_file():
                shutil.copyfile(home / name, own / name)
        # A workspace of its own: cargo would look for one in every folder above, up to that of other users.
        manifest = (
            f'[package]\nname = "ask"\nversion = "0.0.0"\n[workspace]\n[dependencies]\n{_CRATE} = "*"\n'
        )
        (project / "Cargo.toml").write_text(manifest, encoding="utf-8")
        (project / "src/lib.rs").touch()
        # Not started in the project: cargo and rustup read settings, and the program to be run, from every
        # folder above the one they are started in, and any user may write into that of temporary files.
        words = ("generate-lockfile", "--quiet", "--manifest-path", str(project / "Cargo.toml"))
        tools.said("cargo", *words, CARGO_HOME=str(own))
        return list(_cargo_indexes(own, "`cargo generate-lockfile`"))


def _cargo_indexes(home: Path, told_by: str) -> Iterator[ToolAnswer]:
    """Read the indexes that cargo has asked: a folder for each, named after its host."""
    for config in sorted(home.glob("registry/index/*/config.json")):
        host = config.parent.name.rpartition("-")[0]
        files = _json(config.read_text("utf-8", errors="replace")[:MAX_ANSWER]).get("dl")
        yield ToolAnswer("cargo", "index", f"https://{host}/", told_by)
        if isinstance(files, str):
            yield ToolAnswer("cargo", "files", files, told_by)


def _go(tools: _Tools) -> list[ToolAnswer]:
    proxies, _, sums = tools.said("go", "env", "GOPROXY", "GOSUMDB").partition("\n")
    answers = [
        ToolAnswer("go", "index", proxy, "`go env GOPROXY`")
        for proxy in re.split(r"[,|]", proxies.strip())
        if proxy and proxy not in ("direct", "off")
    ]
    # NAME, NAME+KEY, or either with the URL behind it.
    name, _, url = sums.strip().partition(" ")
    if answers and name and name != "off":
        answers.append(
            ToolAnswer("go", "files", url or f"https://{name.partition('+')[0]}/", "`go env GOSUMDB`")
        )
    return answers


def _apt(tools: _Tools) -> list[ToolAnswer]:
    said = tools.said("apt-get", "indextargets", "--format", "$(REPO_URI)")
    return [
        ToolAnswer("apt", "index", url, "`apt-get indextargets`")
        for url in dict.fromkeys(said.split())
        if url.startswith(("https:", "http:"))
    ]


def _json(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
