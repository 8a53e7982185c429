"""Suggestions need the rule files of the proxy; `test_log_calls.py` asks for real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.api_server.suggestions import suggest_for
from egress.fleet.errors import RequestNotLoggedError
from egress.fleet.protocol import FleetInfo
from egress.review import Index
from egress.runtime.errors import GatewayRefusedError
from tests.fleet.test_control_client import answering, http
from tests.unit.review.run_sample import RUN, add_lines


def test_a_request_of_another_run_is_not_found(tmp_path: Path) -> None:
    add_lines(tmp_path, "r-1")
    with Index(tmp_path) as index:
        index.catch_up()
        about = FleetInfo(kind="fake", run="another")
        with pytest.raises(RequestNotLoggedError):
            suggest_for(index, about, "r-1", 0)


@pytest.mark.parametrize("body", [b"{}", b'{"rules": {"files": []}}', b'{"rules": {"files": "a"}}'])
def test_without_the_names_of_the_files_nothing_is_suggested(tmp_path: Path, body: bytes) -> None:
    add_lines(tmp_path, "r-1")
    with Index(tmp_path) as index, answering(http(body)) as folder:
        index.catch_up()
        about = FleetInfo(kind="fake", run=RUN, runtime_dir=folder)
        with pytest.raises(GatewayRefusedError, match="rule files"):
            suggest_for(index, about, "r-1", 0)
