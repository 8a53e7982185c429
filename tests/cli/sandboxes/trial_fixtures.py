"""What trials of images share: where they can be made, and folders of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.memory_fleet import short_folder
from tests.runtime.conftest import answering, engine, image, made_image
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["answering", "engine", "image", "made_image", "namespaces", "refusal"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder, and a home without rules: a trial needs none."""
    for name in list(os.environ):  # noqa: TID251
        if name.startswith(("EGRESS_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with short_folder() as folder:
        monkeypatch.setenv("EGRESS_RUNTIME_DIR", str(folder))
        yield folder
