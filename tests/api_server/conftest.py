"""What tests of the API's server share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api_server.lab import ApiLab, api_lab


@pytest.fixture
def lab() -> Iterator[ApiLab]:
    with api_lab() as lab:
        yield lab
