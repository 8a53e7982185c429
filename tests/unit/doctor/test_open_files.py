"""Descriptors are counted as a start counts them."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from egress.doctor import open_files
from egress.doctor.diagnosis import Level
from tests.unit.doctor.proxy_setups import is_content, needs_care, only, patient


def test_few_connections_fit_into_what_this_process_has(tmp_path: Path) -> None:
    assert is_content(open_files.check(patient(tmp_path, connections="10", sandbox_connections="5")))


def test_more_than_fit_is_doubtful(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    asked = min(hard, 1_000_000) if hard != resource.RLIM_INFINITY else 1_000_000
    found = open_files._judged(patient(tmp_path, connections=str(asked)), min(asked, 4096))
    needs_care(found, Level.WARNING, f"requested: {asked}")


def test_no_bound_at_all_is_fine(tmp_path: Path) -> None:
    found = open_files._judged(patient(tmp_path), sys.maxsize)
    assert "unlimited" in found.fact
    assert only([found]).level is Level.OK
