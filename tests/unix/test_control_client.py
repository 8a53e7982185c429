"""A proxy that does not answer is told apart from none. A real one is asked in tests/proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.control_client import CONTROL_SOCKET, HANDOVER_SOCKET, NoProxyError, ask_proxy, no_answer
from egress.errors import UnreadableError
from egress.unix.stream_socket import listen


def test_no_proxy_runs_where_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(NoProxyError, match="no proxy is running") as caught:
        ask_proxy(tmp_path, "GET", "/status")
    assert "egress serve" in caught.value.hint
    listen(tmp_path / CONTROL_SOCKET, 1).close()
    with pytest.raises(NoProxyError, match=str(tmp_path / CONTROL_SOCKET)):
        ask_proxy(tmp_path, "GET", "/status")


def test_no_proxy_runs_where_none_could_listen(tmp_path: Path) -> None:
    with pytest.raises(NoProxyError, match=r"no proxy is running .* too long for a socket") as caught:
        ask_proxy(tmp_path / ("x" * 100), "GET", "/status")
    assert "egress serve" in caught.value.hint


def test_one_that_does_not_answer_in_time_is_there(tmp_path: Path) -> None:
    with (
        listen(tmp_path / CONTROL_SOCKET, 1),
        pytest.raises(UnreadableError, match="did not answer") as caught,
    ):
        ask_proxy(tmp_path, "GET", "/status", timeout=0.01)
    assert not isinstance(caught.value, NoProxyError)


def test_the_words_of_an_answer_that_is_none_are_not_shown() -> None:
    for error in (ValueError("sesame"), OSError("sesame"), RecursionError("sesame")):
        assert "sesame" not in no_answer(Path("/s"), error).message


def test_the_hand_over_socket_is_alone_in_its_folder() -> None:
    assert HANDOVER_SOCKET.parent != Path(CONTROL_SOCKET).parent
    assert not HANDOVER_SOCKET.is_absolute()
