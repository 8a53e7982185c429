"""What the tests of `egress log` share: a log where `egress serve` keeps it, and running a command on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from egress.audit.key import read_or_create
from egress.cli import rule_options
from egress.cli.main import cli
from egress.errors import EgressError
from tests.unit.audit.sample import KEY
from tests.unit.review.sample import START, write

NOW = START // 10**6 + 10 * 3600


def make(state: Path, monkeypatch: pytest.MonkeyPatch, *, rotate_at: int = 1 << 26) -> Path:
    """A log of eight lines and its key; it is ten hours later now."""
    monkeypatch.setenv("EGRESS_STATE_DIR", str(state))
    monkeypatch.setattr(rule_options, "now", lambda: NOW)
    monkeypatch.setattr("egress.review.index.RESERVE", 0)
    write(state / "audit", rotate_at=rotate_at)
    key = state / "audit.key"
    read_or_create(key, state / "audit")
    key.write_bytes(KEY)
    return state / "audit"


def run(*words: str) -> tuple[int, str, str]:
    """The status, what was said, and what was said beside it; an error of ours is raised."""
    result = CliRunner().invoke(cli, ["log", *words], standalone_mode=False)
    if isinstance(result.exception, EgressError):
        raise result.exception
    assert result.exception is None, result.exception
    assert isinstance(result.return_value, int)
    return result.return_value, result.stdout, result.stderr
