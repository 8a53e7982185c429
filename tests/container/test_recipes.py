"""The recipes as texts: what every builder can read, and what must not be in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from egress.policy.bundled_presets import preset_texts
from egress.proxy.process.descriptor_limit import fit_capacity, requested_capacity
from egress.proxy.settings import Settings
from egress.rules.compile.load import RuleText, load
from tests.container.recipe_folder import FOLDER

RECIPES = sorted(FOLDER.rglob("*Dockerfile"))
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc")


def named(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


def steps(recipe: Path) -> list[str]:
    """The instructions, each on one line."""
    text = re.sub(r"^\s*#.*\n", "", recipe.read_text("utf-8"), flags=re.MULTILINE)
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def test_there_are_four() -> None:
    names = ["Dockerfile", "agents/Dockerfile", "door/Dockerfile", "proxy.Dockerfile"]
    assert [named(recipe) for recipe in RECIPES] == names


@pytest.mark.parametrize("recipe", RECIPES, ids=named)
def test_the_base_can_be_named(recipe: Path) -> None:
    found = steps(recipe)
    assert found[0].startswith("ARG BASE_IMAGE=")
    sources = [step.split()[1:] for step in found if step.startswith("FROM ")]
    stages = {words[2] for words in sources if words[1:2] == ["AS"]}
    assert {words[0] for words in sources} - stages == {"${BASE_IMAGE}"}


@pytest.mark.parametrize("recipe", RECIPES, ids=named)
def test_the_builder_of_every_engine_can_read_it(recipe: Path) -> None:
    for step in steps(recipe):
        assert not re.search(r"<<|\s--(mount|network|security|link|parents|exclude)\b", step), step
    assert not recipe.read_text("utf-8").startswith("# syntax")


@pytest.mark.parametrize("recipe", RECIPES, ids=named)
def test_it_does_not_run_as_root(recipe: Path) -> None:
    users = [step.split()[1] for step in steps(recipe) if step.startswith("USER ")]
    assert users
    assert users[-1].split(":")[0] not in ("0", "root")


def test_the_proxy_is_made_without_a_shell() -> None:
    for step in steps(FOLDER / "proxy.Dockerfile"):
        if step.startswith(("RUN", "CMD", "ENTRYPOINT")):
            assert step.split(maxsplit=1)[1].startswith("["), step
        if step.startswith("HEALTHCHECK"):
            assert step.endswith('CMD ["egress", "status"]')


@pytest.mark.parametrize("file", FILES, ids=named)
def test_no_file_names_a_package_index(file: Path) -> None:
    text = file.read_text("utf-8")
    shown = r"api\.github\.com|(?:collector\.)?example\.com|192\.0\.2|10\.9"
    assert not re.search(rf"index-url|--registry|://(?!{shown})", text)


def test_the_example_of_rules_is_without_findings() -> None:
    text = (FOLDER / "rules/hosts.yaml").read_text("utf-8")
    assert load([RuleText("hosts.yaml", text)], preset_texts(), 1_800_000_000).findings == ()


def test_the_connections_of_the_sidecar_fit_into_few_descriptors() -> None:
    """A proxy that gets fewer warns at each start. 4096 is the least of what engines and systems give."""
    (number,) = re.findall(r"--connections=([0-9]+)", (FOLDER / "compose.yaml").read_text("utf-8"))
    asked = requested_capacity(int(number), int(number))
    assert fit_capacity(asked, 4096).clients == asked.clients
    # One workload may have as many as all together.
    assert int(number) == Settings.model_fields["sandbox_connections"].default


def test_addresses_stand_where_the_file_says() -> None:
    """So that replacing them in two files is enough."""
    holding = [named(file) for file in FILES if "10.92.0." in file.read_text("utf-8")]
    assert holding == ["compose.yaml", "resolv.conf"]
