"""Discover the setup of this machine for `egress init`: names of variables, hosts, repositories.

Theory of operation. Only the environment mapping, the home and the working directory that are passed in are
read, with the answers of package managers, which another module asks. Values stay where they are: of a `.env`
file only keys are used, of a URL only the host, of gh only that its file exists. A file that is missing, too
large, not regular or not text counts as missing.
"""

from __future__ import annotations

import configparser
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from egress.cli.package_registries import ToolAnswer
from egress.cli.url_host import Repository, UrlHost, parse_host, parse_repository
from egress.rules.language.credential_guess import looks_like_credential

MAX_BYTES = 1024 * 1024
MAX_NAMES = 12

VARIABLES = {
    "github": ("GITHUB_TOKEN", "GH_TOKEN"),
    "gitlab": ("GITLAB_TOKEN",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "copilot": ("COPILOT_GITHUB_TOKEN",),
    "huggingface": ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
}
"""Environment variables that commonly hold the token, by preset, the usual one first."""

_DOTENV_NAME = re.compile(r"(?:export[ \t]+)?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)[ \t]*=")
_CREDENTIAL_NAME = re.compile(r"[A-Z0-9_]{1,56}_(?:TOKEN|KEY|SECRET|PASSWORD)")
_GIT_SECTION = re.compile(r'\[remote[ \t]+"[^"]*"\]')
_GIT_URL = re.compile(r'url[ \t]*=[ \t]*"?([^"\s]+)"?', re.IGNORECASE)
_NPM_LINE = re.compile(r"(?:@[^:=\s]+:)?registry[ \t]*=[ \t]*[\"']?([^\"'\s]+)[\"']?")

GH, DOTENV, ENVIRONMENT = "gh", ".env", "environment"


@dataclass(frozen=True, slots=True)
class TokenSource:
    """The source of a secret, by name: a variable, or gh."""

    variable: str
    told_by: str


@dataclass(frozen=True, slots=True)
class ConfiguredHost:
    """A site in a tool's configuration, and the file or variable that names it."""

    site: UrlHost
    told_by: str
    is_from_folder: bool = False
    """From the working directory, which another person may have written."""


@dataclass(frozen=True, slots=True)
class DiscoveredSetup:
    """The findings. No value of a secret is among them."""

    tokens: Mapping[str, TokenSource]
    repositories: tuple[Repository, ...] = ()
    python: tuple[ConfiguredHost, ...] = ()
    npm: tuple[ConfiguredHost, ...] = ()
    cargo: tuple[ConfiguredHost, ...] = ()
    go: tuple[ConfiguredHost, ...] = ()
    apt: tuple[ConfiguredHost, ...] = ()
    files: Mapping[str, tuple[ConfiguredHost, ...]] = field(default_factory=dict)
    """The hosts of packages, by tool, where they are not those of the index; of go, of the checksums."""
    python_unclear: tuple[str, ...] = ()
    npm_unclear: tuple[str, ...] = ()
    """Places of URLs whose host is unclear, an address, or a local-only name."""
    other_names: tuple[str, ...] = ()
    """Other keys of the `.env` file with names like credentials."""


def discover(
    environ: Mapping[str, str],
    home: Path,
    cwd: Path,
    etc: Path = Path("/etc"),
    answers: Sequence[ToolAnswer] = (),
) -> DiscoveredSetup:
    """Look around; `answers` are those of package managers. Never raises for missing or broken files."""
    dotenv = _dotenv_names(_text(cwd / ".env"))
    tokens = {name: token for name in VARIABLES if (token := _token(name, environ, home, dotenv))}
    # Configuration comes before what a tool says of itself: it names more than one index, and its place.
    python, python_unclear = _sites([*_python_urls(environ, home, etc), *_answered(answers, "pip", "index")])
    npm, npm_unclear = _sites([*_npm_urls(environ, home, cwd), *_answered(answers, "npm", "index")])
    tools = ("pip", "npm", "cargo", "go")
    known = {variable for variables in VARIABLES.values() for variable in variables}
    return DiscoveredSetup(
        tokens=tokens,
        repositories=tuple(dict.fromkeys(_repositories(cwd))),
        python=python,
        npm=npm,
        cargo=_sites(_answered(answers, "cargo", "index"))[0],
        go=_sites(_answered(answers, "go", "index"))[0],
        apt=_sites(_answered(answers, "apt", "index"))[0],
        files={tool: sites for tool in tools if (sites := _sites(_answered(answers, tool, "files"))[0])},
        python_unclear=python_unclear,
        npm_unclear=npm_unclear,
        other_names=tuple(name for name in dotenv if name not in known)[:MAX_NAMES],
    )


# Tokens ---------------------------------------------------------------------------------------


def _token(service: str, environ: Mapping[str, str], home: Path, dotenv: Iterable[str]) -> TokenSource | None:
    for variable in VARIABLES[service]:
        if environ.get(variable):
            return TokenSource(variable, ENVIRONMENT)
    # Only the file's presence counts: gh itself hands out the token when the proxy asks for it.
    if service == "github" and _is_file(_gh_folder(environ, home) / "hosts.yml"):
        return TokenSource("", GH)
    for variable in VARIABLES[service]:
        if variable in dotenv:
            return TokenSource(variable, DOTENV)
    return None


def _gh_folder(environ: Mapping[str, str], home: Path) -> Path:
    if environ.get("GH_CONFIG_DIR"):
        return Path(environ["GH_CONFIG_DIR"])
    return _config_folder(environ, home) / "gh"


def _config_folder(environ: Mapping[str, str], home: Path) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def _dotenv_names(text: str) -> tuple[str, ...]:
    """Return keys named like credentials, by a narrow pattern that no line of a value matches."""
    # Values over several lines may contain text like a key, so the pattern is strict.
    names = (match[1] for line in text.splitlines() if (match := _DOTENV_NAME.match(line.lstrip())))
    return tuple(
        dict.fromkeys(
            name for name in names if _CREDENTIAL_NAME.fullmatch(name) and not looks_like_credential(name)
        )
    )


# Repositories ---------------------------------------------------------------------------------


def _repositories(cwd: Path) -> Iterator[Repository]:
    inside = False
    for line in _text(_git_folder(cwd) / "config").splitlines():
        text = line.strip()
        if text.startswith("["):
            inside = bool(_GIT_SECTION.match(text))
        elif inside and (match := _GIT_URL.fullmatch(text)) and (found := parse_repository(match[1])):
            yield found


def _git_folder(cwd: Path) -> Path:
    """Return the folder with the configuration of the repository around `cwd`."""
    # A relative path such as `.` has no parents.
    whole = cwd.absolute()
    for folder in (whole, *whole.parents):
        git = folder / ".git"
        if _is_file(git):
            # A worktree or submodule: the file names its own folder, and that one the common folder.
            own = folder / _text(git).strip().removeprefix("gitdir:").strip()
            common = _text(own / "commondir").strip()
            return own / common if common else own
        if _is_file(git / "config"):
            return git
    return cwd / ".git"


# Package indexes ------------------------------------------------------------------------------

Url = tuple[str, str, bool]
"""A URL, its origin, and whether the origin is in the working directory."""


def _answered(answers: Iterable[ToolAnswer], tool: str, role: str) -> Iterator[Url]:
    yield from ((each.url, each.told_by, False) for each in answers if (each.tool, each.role) == (tool, role))


def _python_urls(environ: Mapping[str, str], home: Path, etc: Path) -> Iterator[Url]:
    for name in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        yield from ((url, name, False) for url in _words(environ.get(name, "")))
    for name in ("PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"):
        yield from ((url, name, False) for url in _words(environ.get(name, "")))
    for path in _pip_files(environ, home, etc):
        yield from ((url, _shown(path, home), False) for url in _pip_urls(_text(path)))


def _words(text: str) -> list[str]:
    """Return the URLs of a list; uv also writes `name=https://...`."""
    return [word.partition("=")[2] if re.match(r"[\w.-]+=https?:", word) else word for word in text.split()]


def _pip_files(environ: Mapping[str, str], home: Path, etc: Path) -> Iterator[Path]:
    if environ.get("PIP_CONFIG_FILE") == os.devnull:
        return  # pip takes this for "no configuration at all"
    if environ.get("PIP_CONFIG_FILE"):
        yield Path(environ["PIP_CONFIG_FILE"])
    if environ.get("VIRTUAL_ENV"):
        yield Path(environ["VIRTUAL_ENV"]) / "pip.conf"
    yield _config_folder(environ, home) / "pip" / "pip.conf"
    yield home / ".pip" / "pip.conf"
    yield etc / "pip.conf"
    yield etc / "xdg" / "pip" / "pip.conf"


def _pip_urls(text: str) -> Iterator[str]:
    # Raw, because a percent sign in a password would be read as interpolation.
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    for key in ("index-url", "extra-index-url"):
        for section in parser.sections():
            for name, value in parser.items(section):
                if name.replace("_", "-") == key:
                    yield from value.split()


def _npm_urls(environ: Mapping[str, str], home: Path, cwd: Path) -> Iterator[Url]:
    for name in sorted(environ):
        # npm reads these variables in any case.
        if name.lower() == "npm_config_registry" and environ[name]:
            yield environ[name], name, False
    user = Path(
        environ.get("npm_config_userconfig") or environ.get("NPM_CONFIG_USERCONFIG") or home / ".npmrc"
    )
    yield from ((url, _shown(user, home), False) for url in _npmrc_urls(_text(user)))
    if cwd / ".npmrc" != user:
        yield from ((url, ".npmrc", True) for url in _npmrc_urls(_text(cwd / ".npmrc")))


def _npmrc_urls(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if match := _NPM_LINE.fullmatch(line.strip()):
            yield match[1]


def _sites(urls: Iterable[Url]) -> tuple[tuple[ConfiguredHost, ...], tuple[str, ...]]:
    """Return each site once, by its first mention, and the origins of URLs without a usable host."""
    found: dict[tuple[str, int], ConfiguredHost] = {}
    unclear: dict[str, None] = {}
    for url, told_by, is_from_folder in urls:
        where = parse_host(url)
        if where is None:
            unclear[told_by] = None
        else:
            found.setdefault((where.host, where.port), ConfiguredHost(where, told_by, is_from_folder))
    return tuple(found.values()), tuple(unclear)


# Files ----------------------------------------------------------------------------------------


def _shown(path: Path, home: Path) -> str:
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _text(path: Path) -> str:
    """Return the text of a regular file of modest size; empty for anything else."""
    if not _is_file(path):
        return ""
    try:
        # Non-blocking, since the file can be replaced by a pipe after the check.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError:
        return ""
    return "" if len(data) > MAX_BYTES else data.decode("utf-8", "replace")
