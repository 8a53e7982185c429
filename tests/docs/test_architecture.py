"""The walk through the code names files that exist, and draws the folders and layers that there are."""

from __future__ import annotations

import re
import tomllib

from scripts.pages import ROOT, blocks, text

PAGE = ROOT / "docs/guides/architecture.md"
PACKAGE = ROOT / "egress"
NAMED = re.compile(r"`((?:\w+/)*\w+\.py|(?:\w+/)+\w*)`")


def is_there(named: str) -> bool:
    return (PACKAGE / named).exists() or (ROOT / named).exists()


def test_every_file_that_is_named_is_there() -> None:
    named = NAMED.findall(text(PAGE))
    assert len(named) > 50
    assert [name for name in named if not is_there(name)] == []
    assert not is_there("proxy/nowhere.py")


def test_every_folder_is_on_the_map() -> None:
    (drawn,) = [block.text for block in blocks(PAGE) if "egress/\n" in block.text]
    rooms = [path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()]
    assert [room for room in rooms if f"  {room}/ " not in drawn] == []


def test_the_layers_are_those_that_are_checked() -> None:
    (drawn,) = [block.text for block in blocks(PAGE) if block.text.startswith("cli\n")]
    contracts = tomllib.loads(text(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["id"] == "layers"]
    # What may be missing stands in brackets; it is drawn as soon as it is there.
    checked = [[room for room in re.findall(r"\w+", layer) if there(room)] for layer in layers]
    assert [re.findall(r"\w+", line) for line in drawn.splitlines()] == [rooms for rooms in checked if rooms]


def there(room: str) -> bool:
    return room != "__main__" and ((PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file())
