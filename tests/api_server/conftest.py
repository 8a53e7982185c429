"""What tests of the API's server share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api_server.file_lab import FileLab, file_lab
from tests.api_server.lab import ApiLab, api_lab


@pytest.fixture
def lab() -> Iterator[ApiLab]:
    with api_lab() as lab:
        yield lab


@pytest.fixture
def files(tmp_path: Path) -> Iterator[FileLab]:
    with file_lab(tmp_path) as lab:
        yield lab
