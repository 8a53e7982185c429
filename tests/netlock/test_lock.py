"""The proof of the lock: nothing but a refusal at once is taken for one. tests/netlock has a real lock."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from egress.errors import ContentError
from egress.netlock import lock


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A port that nobody listens at yet; the packet filter is left alone."""
    monkeypatch.setattr(lock, "apply_batch", lambda _: None)
    monkeypatch.setattr(lock, "_OUTSIDE", ((socket.AF_INET, "127.0.0.1"),))
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        monkeypatch.setattr(lock, "_PORT", sock.getsockname()[1])
        yield


@pytest.mark.usefixtures("port")
def test_a_refusal_proves_the_lock() -> None:
    lock.lock_network(10001)


@pytest.mark.usefixtures("port")
def test_a_connection_that_opens_disproves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(lock, "_PORT", server.getsockname()[1])
        with pytest.raises(ContentError, match="the connection was opened"):
            lock.lock_network(10001)


@pytest.mark.usefixtures("port")
def test_a_network_without_a_way_disproves_it_for_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_OUTSIDE", ((socket.AF_INET, "255.255.255.255"),))
    with pytest.raises(ContentError, match="was not refused at once"):
        lock.lock_network(10001)
