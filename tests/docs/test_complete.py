"""What a person can write or meet is documented: keys, commands, options, refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from egress.cli.main import cli
from egress.errors import CODES
from egress.rules.compile.secrets import SCHEMES
from egress.rules.language.schema import build_schema
from scripts.docs import PAGES as GENERATED
from scripts.docs import PARTS, mapping
from scripts.pages import PAGES, ROOT, name, text

WRITTEN = "\n".join(text(page) for page in PAGES if name(page) not in GENERATED)
EVERYTHING = "\n".join(text(page) for page in PAGES)


def is_told(word: str, where: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", where) is not None


def commands(
    command: click.Command, path: tuple[str, ...] = ("egress",)
) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from commands(found, (*path, below))


def test_every_key_of_a_rule_file_is_explained_by_hand() -> None:
    """The generated table alone would list a key that nobody has explained."""
    top = build_schema()
    parts = [top, *(mapping(mapping(top["$defs"])[part]) for part in PARTS)]
    keys = {key for part in parts for key in mapping(part["properties"])}
    assert [key for key in sorted(keys) if not is_told(key, WRITTEN)] == []


def test_every_kind_of_source_is_explained_by_hand() -> None:
    assert [scheme for scheme in SCHEMES if not is_told(scheme, WRITTEN)] == []


def test_every_refusal_is_listed() -> None:
    assert [code for code in CODES if f"`{code}`" not in EVERYTHING] == []


def test_every_command_and_option_is_listed() -> None:
    missing = []
    for path, command in commands(cli):
        options = [option for p in command.params if isinstance(p, click.Option) for option in p.opts]
        missing += [word for word in (path, *options) if not is_told(word, EVERYTHING)]
    assert missing == []


def test_every_rule_page_shows_a_rule_file_and_a_mistake_and_stays_short() -> None:
    for page in (ROOT / "docs/rules").glob("*.md"):
        assert "```yaml\nversion: 1" in text(page) or "```yaml hosts.yaml\nversion: 1" in text(page)
        assert "## What goes wrong" in text(page)
        assert len(text(page).splitlines()) <= 120, name(page)
