"""The shelf of presets: complete, in order, and quickly at hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from egress.policy.bundled_presets import preset_texts

FOLDER = Path(__file__).parents[3] / "egress/policy/presets"


def test_every_file_in_the_folder_is_a_preset_under_its_name() -> None:
    files = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yaml")}
    assert dict(preset_texts()) == files
    assert files


def test_names_come_in_alphabetical_order() -> None:
    assert list(preset_texts()) == sorted(preset_texts())


def test_nothing_else_lies_in_the_folder() -> None:
    """A preset under another ending would be left out without a word."""
    assert [path.name for path in FOLDER.iterdir() if path.suffix != ".yaml"] == []


def test_the_texts_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        preset_texts()["github"] = ""  # type: ignore[index]


def test_reading_presets_loads_no_heavy_package() -> None:
    """`egress check` answers at once: what only some files need is loaded for those."""
    program = "import sys, egress.policy.rule_files as f; f.preset_texts(); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"mitmproxy", "docker", "ruamel.yaml", "publicsuffixlist"} & set(run.stdout.split())
