"""Looking around a machine: what is found, what is left alone, and that no value comes along."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from egress.cli.discover import MAX_BYTES, DiscoveredSetup, TokenSource, discover
from egress.cli.package_registries import ToolAnswer
from egress.cli.url_host import Repository

SENTINEL = "sentinel-9f3a"


class Machine:
    """A home, a working directory and an /etc, all empty to begin with."""

    def __init__(self, root: Path) -> None:
        self.home, self.cwd, self.etc = root / "home", root / "work", root / "etc"
        for folder in (self.home, self.cwd, self.etc):
            folder.mkdir()

    def put(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def look(self, environ: Mapping[str, str] | None = None, *answers: ToolAnswer) -> DiscoveredSetup:
        return discover(environ or {}, self.home, self.cwd, self.etc, answers)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def hosts(found: DiscoveredSetup, tool: str) -> list[str]:
    return [item.site.host for item in (found.python if tool == "pip" else found.npm)]


def test_an_empty_machine_has_nothing(machine: Machine) -> None:
    assert machine.look() == DiscoveredSetup(tokens={})


# Tokens -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "service"),
    [
        ("GITHUB_TOKEN", "github"),
        ("GH_TOKEN", "github"),
        ("GITLAB_TOKEN", "gitlab"),
        ("ANTHROPIC_API_KEY", "anthropic"),
        ("OPENAI_API_KEY", "openai"),
        ("GEMINI_API_KEY", "gemini"),
        ("COPILOT_GITHUB_TOKEN", "copilot"),
        ("HF_TOKEN", "huggingface"),
    ],
)
def test_names_a_variable_of_the_environment_and_not_its_value(
    variable: str, service: str, machine: Machine
) -> None:
    found = machine.look({variable: SENTINEL})
    assert found.tokens == {service: TokenSource(variable, "environment")}
    assert SENTINEL not in repr(found)


def test_an_empty_variable_is_none(machine: Machine) -> None:
    assert not machine.look({"GITHUB_TOKEN": ""}).tokens


def test_the_usual_variable_comes_before_the_other(machine: Machine) -> None:
    tokens = machine.look({"GH_TOKEN": "x", "GITHUB_TOKEN": "x"}).tokens
    assert tokens["github"].variable == "GITHUB_TOKEN"


@pytest.mark.parametrize(
    ("place", "environ"),
    [
        ("home/.config/gh/hosts.yml", {}),
        ("elsewhere/gh/hosts.yml", {"XDG_CONFIG_HOME": "elsewhere"}),
        ("own/hosts.yml", {"GH_CONFIG_DIR": "own"}),
    ],
)
def test_gh_is_signed_in_when_its_file_is_there(
    place: str, environ: dict[str, str], machine: Machine, tmp_path: Path
) -> None:
    machine.put(tmp_path / place, f"github.com:\n    oauth_token: {SENTINEL}\n")
    found = machine.look({name: str(tmp_path / value) for name, value in environ.items()})
    assert found.tokens == {"github": TokenSource("", "gh")}
    assert SENTINEL not in repr(found)


def test_a_variable_that_is_set_comes_before_gh_and_gh_before_a_dotenv_file(machine: Machine) -> None:
    machine.put(machine.cwd / ".env", "GITHUB_TOKEN=x\n")
    assert machine.look().tokens["github"].told_by == ".env"
    machine.put(machine.home / ".config/gh/hosts.yml", "")
    assert machine.look().tokens["github"].told_by == "gh"
    assert machine.look({"GH_TOKEN": "x"}).tokens["github"].told_by == "environment"


def test_reads_the_names_of_a_dotenv_file(machine: Machine) -> None:
    machine.put(
        machine.cwd / ".env",
        f"# a comment\nexport OPENAI_API_KEY='{SENTINEL}'\n  GITLAB_TOKEN = {SENTINEL}\n"
        f'STRIPE_SECRET_KEY="{SENTINEL}\n{SENTINEL}"\nDEBUG=1\nDATABASE_URL=postgres://u:{SENTINEL}@db/x\n'
        f"ADMIN_PASSWORD={SENTINEL}\nADMIN_PASSWORD={SENTINEL}\n",
    )
    found = machine.look()
    assert found.tokens == {
        "gitlab": TokenSource("GITLAB_TOKEN", ".env"),
        "openai": TokenSource("OPENAI_API_KEY", ".env"),
    }
    assert found.other_names == ("STRIPE_SECRET_KEY", "ADMIN_PASSWORD")
    assert SENTINEL not in repr(found)


def test_no_line_of_a_value_passes_for_a_name(machine: Machine) -> None:
    key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7==\nSentinelABCDEF+/abc=\nSENTINEL99=\n"
    machine.put(machine.cwd / ".env", f'APP_KEY="-----BEGIN\n{key}"\nghp_sentinelsentinelsentinel99=\n')
    found = machine.look()
    assert found.other_names == ("APP_KEY",)


def test_a_name_that_looks_like_a_credential_is_left_out(machine: Machine) -> None:
    machine.put(machine.cwd / ".env", f"{'AKIA' + 'ABCDEFGHIJ234567'}_TOKEN=x\n")
    assert machine.look().other_names == ()


# Repositories -----------------------------------------------------------------------------------

CONFIG = f"""\
[core]
	bare = false
	url = https://github.com/not/this
[remote "origin"]
	url = https://user:{SENTINEL}@github.com/acme/widgets.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[remote "lab"]
  url = "git@gitlab.example.com:acme/tools/forge.git"
[remote "same"]
	URL = git@github.com:acme/widgets
[remote "disk"]
	url = /srv/git/widgets
[branch "main"]
	url = https://github.com/nor/this
"""


def test_reads_the_remotes_of_the_working_directory(machine: Machine) -> None:
    machine.put(machine.cwd / ".git/config", CONFIG)
    found = machine.look()
    assert found.repositories == (
        Repository("github.com", "acme/widgets"),
        Repository("gitlab.example.com", "acme/tools/forge"),
    )
    assert SENTINEL not in repr(found)


def test_a_folder_inside_the_repository_will_do(machine: Machine) -> None:
    machine.put(machine.cwd / ".git/config", CONFIG)
    inside = machine.cwd / "docs/guides"
    inside.mkdir(parents=True)
    found = discover({}, machine.home, inside, machine.etc)
    assert found.repositories[0] == Repository("github.com", "acme/widgets")


def test_a_worktree_is_followed_to_the_repository_it_belongs_to(machine: Machine, tmp_path: Path) -> None:
    machine.put(tmp_path / "main/.git/config", CONFIG)
    machine.put(tmp_path / "main/.git/worktrees/w/commondir", "../..\n")
    machine.put(machine.cwd / ".git", f"gitdir: {tmp_path}/main/.git/worktrees/w\n")
    assert machine.look().repositories[0] == Repository("github.com", "acme/widgets")


def test_a_submodule_has_its_own_configuration(machine: Machine, tmp_path: Path) -> None:
    machine.put(tmp_path / "modules/w/config", CONFIG)
    machine.put(machine.cwd / ".git", "gitdir: ../modules/w\n")
    assert machine.look().repositories[0] == Repository("github.com", "acme/widgets")


# pip --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL"])
def test_reads_the_index_from_the_environment(name: str, machine: Machine) -> None:
    found = machine.look({name: f"https://u:{SENTINEL}@index.example.com/simple"})
    assert hosts(found, "pip") == ["index.example.com"]
    assert found.python[0].told_by == name
    assert found.python[0].site.had_user
    assert SENTINEL not in repr(found)


def test_reads_lists_and_the_named_indexes_of_uv(machine: Machine) -> None:
    found = machine.look({"UV_INDEX": "corp=https://one.example.com/ https://two.example.com/"})
    assert hosts(found, "pip") == ["one.example.com", "two.example.com"]


@pytest.mark.parametrize(
    ("place", "environ"),
    [
        ("home/.config/pip/pip.conf", {}),
        ("home/.pip/pip.conf", {}),
        ("etc/pip.conf", {}),
        ("etc/xdg/pip/pip.conf", {}),
        ("own/pip.conf", {"PIP_CONFIG_FILE": "own/pip.conf"}),
        ("venv/pip.conf", {"VIRTUAL_ENV": "venv"}),
        ("xdg/pip/pip.conf", {"XDG_CONFIG_HOME": "xdg"}),
    ],
)
def test_reads_the_files_of_pip(
    place: str, environ: dict[str, str], machine: Machine, tmp_path: Path
) -> None:
    machine.put(
        tmp_path / place,
        f"[global]\nindex-url = https://u:{SENTINEL}@index.example.com/simple\n"
        "[install]\nextra_index_url =\n    https://more.example.com/a\n    https://index.example.com/b\n"
        "trusted-host = other.example.com\n",
    )
    found = machine.look({name: str(tmp_path / value) for name, value in environ.items()})
    assert hosts(found, "pip") == ["index.example.com", "more.example.com"]
    assert SENTINEL not in repr(found)


def test_pip_told_to_read_no_configuration_is_believed(machine: Machine) -> None:
    machine.put(machine.home / ".config/pip/pip.conf", "[global]\nindex-url = https://index.example.com/\n")
    assert machine.look({"PIP_CONFIG_FILE": os.devnull}).python == ()


def test_a_file_of_the_home_is_named_from_the_home(machine: Machine) -> None:
    machine.put(machine.home / ".pip/pip.conf", "[global]\nindex-url = https://index.example.com/\n")
    assert machine.look().python[0].told_by == "~/.pip/pip.conf"


def test_an_address_or_an_unclear_url_is_named_by_its_place(machine: Machine) -> None:
    found = machine.look({"PIP_INDEX_URL": f"http://u:{SENTINEL}@10.0.0.5/", "npm_config_registry": "${REG}"})
    assert found.python == ()
    assert found.python_unclear == ("PIP_INDEX_URL",)
    assert found.npm_unclear == ("npm_config_registry",)
    assert SENTINEL not in repr(found)


def test_a_broken_pip_file_is_passed_over(machine: Machine) -> None:
    machine.put(machine.home / ".pip/pip.conf", f"index-url = {SENTINEL}\n[[[\n")
    assert machine.look() == DiscoveredSetup(tokens={})


# npm --------------------------------------------------------------------------------------------


def test_reads_the_registries_of_npm(machine: Machine) -> None:
    machine.put(
        machine.home / ".npmrc",
        "registry = https://npm.example.com/\n@acme:registry=https://acme.example.com/\n"
        f"//npm.example.com/:_authToken={SENTINEL}\n_auth={SENTINEL}\n; registry=https://no.example.com/\n",
    )
    found = machine.look()
    assert hosts(found, "npm") == ["npm.example.com", "acme.example.com"]
    assert not found.npm[0].is_from_folder
    assert SENTINEL not in repr(found)


def test_what_the_folder_itself_says_is_marked(machine: Machine) -> None:
    machine.put(machine.cwd / ".npmrc", "registry='https://npm.example.com/'\n")
    found = machine.look()
    assert found.npm[0].is_from_folder
    assert found.npm[0].told_by == ".npmrc"


def test_what_the_user_says_too_is_the_users(machine: Machine) -> None:
    machine.put(machine.cwd / ".npmrc", "registry=https://npm.example.com/\n")
    machine.put(machine.home / ".npmrc", "registry=https://npm.example.com/\n")
    assert [item.is_from_folder for item in machine.look().npm] == [False]


def test_the_home_as_working_directory_is_the_users_own(machine: Machine) -> None:
    machine.put(machine.home / ".npmrc", "registry=https://npm.example.com/\n")
    found = discover({}, machine.home, machine.home, machine.etc)
    assert [item.is_from_folder for item in found.npm] == [False]


def test_npm_names_its_variables_in_any_case(machine: Machine) -> None:
    assert hosts(machine.look({"NPM_CONFIG_REGISTRY": "https://a.example.com/"}), "npm") == ["a.example.com"]
    assert hosts(machine.look({"npm_config_registry": "https://a.example.com/"}), "npm") == ["a.example.com"]


def test_npm_may_have_its_file_elsewhere(machine: Machine, tmp_path: Path) -> None:
    file = machine.put(tmp_path / "npm/rc", "registry=https://npm.example.com/\n")
    assert hosts(machine.look({"npm_config_userconfig": str(file)}), "npm") == ["npm.example.com"]


# Odd things where a file should be ----------------------------------------------------------------


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_huge(path: Path) -> None:
    path.write_text("GITHUB_TOKEN=x\n" + "#" * MAX_BYTES, encoding="utf-8")


def make_binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 10)


def make_dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def make_loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("make", [make_pipe, make_huge, make_binary, Path.mkdir, make_dangling, make_loop])
def test_what_is_no_plain_text_counts_as_not_there(make: object, machine: Machine) -> None:
    (machine.cwd / ".git").mkdir()
    (machine.home / ".pip").mkdir()
    for path in (".env", ".npmrc", ".git/config"):
        make(machine.cwd / path)  # type: ignore[operator]
    make(machine.home / ".pip/pip.conf")  # type: ignore[operator]
    assert machine.look() == DiscoveredSetup(tokens={})


def test_names_with_nul_count_as_not_there(machine: Machine) -> None:
    machine.put(machine.cwd / ".git", "gitdir: a\0b\n")
    assert machine.look() == DiscoveredSetup(tokens={})


# Answers of package managers ----------------------------------------------------------------------


def test_what_a_tool_says_comes_behind_what_is_configured(machine: Machine) -> None:
    answers = [
        ToolAnswer("pip", "index", "https://u:sentinel@asked.example.com/simple", "`pip`"),
        ToolAnswer("pip", "files", "https://files.example.com/x.whl", "`pip`"),
        ToolAnswer("npm", "index", "https://10.0.0.5/", "`npm`"),
        ToolAnswer("cargo", "index", "https://index.example.org/", "`cargo`"),
        ToolAnswer("cargo", "files", "https://crates.example.org/{crate}", "`cargo`"),
        ToolAnswer("go", "index", "https://modules.example.org", "`go`"),
        ToolAnswer("go", "files", "https://sums.example.org/", "`go`"),
        ToolAnswer("apt", "index", "http://archive.example.org/debian/", "`apt`"),
    ]
    found = machine.look({"PIP_INDEX_URL": "https://own.example.com/simple"}, *answers)
    assert hosts(found, "pip") == ["own.example.com", "asked.example.com"]
    assert (found.npm, found.npm_unclear) == ((), ("`npm`",))
    assert [item.site.host for item in (*found.cargo, *found.go, *found.apt)] == [
        "index.example.org",
        "modules.example.org",
        "archive.example.org",
    ]
    assert {tool: [item.site.host for item in items] for tool, items in found.files.items()} == {
        "pip": ["files.example.com"],
        "cargo": ["crates.example.org"],
        "go": ["sums.example.org"],
    }
    assert "sentinel" not in repr(found)
