"""`egress schema` prints the schema, and nothing else."""

from __future__ import annotations

import pytest

from egress.cli.main import main
from egress.rules.language.schema import schema_text


def test_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == schema_text()
