"""The table of GitHub's schema is what the script makes of the published package, unedited."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Final

import pytest

from egress.inspect.graphql.github import schema_data
from scripts.github_schema import table
from tests.proxy.clients.cache import Fetched, work

SOURCE: Final[str] = json.loads(schema_data.SCHEMA)["source"]


def _unpacked(folder: Path) -> None:
    work("npm", "pack", "--silent", SOURCE.replace(" ", "@"), folder=folder)
    (packed,) = folder.glob("*.tgz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    packed.unlink()


PACKAGE: Final = Fetched("github-schema", (Path(schema_data.__file__),), _unpacked)


@pytest.mark.nightly
@pytest.mark.timeout(200)
def test_the_table_is_made_of_the_published_schema(request: pytest.FixtureRequest) -> None:
    PACKAGE.require(request)
    text = (PACKAGE.folder / "package/schema.graphql").read_text("utf-8")
    assert table(text, SOURCE) == Path(schema_data.__file__).read_text("utf-8")
