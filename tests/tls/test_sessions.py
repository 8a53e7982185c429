"""Upstream sessions are kept by all they were verified for, and not for ever."""

from __future__ import annotations

import dataclasses
import ssl

import pytest
import trustme
from OpenSSL import SSL

from egress.tls import sessions, verification
from egress.tls.contexts import UpstreamContexts
from egress.tls.sessions import SessionKey, UpstreamSessions
from tests.addons.handshake import TLS_1_2, TLS_1_3, Pair, serving, upstream

HOST = "api.example.com"
KEY = SessionKey("one", HOST, 443, (b"http/1.1",), frozenset())


class Place:
    """One upstream, and our side of it."""

    def __init__(self, newest: int = TLS_1_3) -> None:
        ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.context = upstream(ca.issue_cert(HOST), newest=newest)
        self.ours = UpstreamContexts([ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())])

    def visit(self, session: SSL.Session | None = None) -> SSL.Connection:
        client = self.ours.connecting(HOST, (), session=session)
        pair = Pair(client, serving(self.context)).run()
        assert pair.is_up, pair.errors
        pair.say(b"hello")
        return client


@pytest.mark.parametrize("newest", [TLS_1_2, TLS_1_3])
def test_what_is_kept_is_resumed_also_when_the_connection_is_gone(newest: int) -> None:
    """OpenSSL spends the session of a connection that is freed without having been shut down."""
    place, kept = Place(newest), UpstreamSessions()
    kept.keep(KEY, place.visit(), 100.0)
    for _ in range(3):
        found = kept.find(KEY, 101.0)
        assert found is not None
        client = place.visit(found.session)
        assert verification.is_resumed(client)
        kept.keep(KEY, client, found.verified)


@pytest.mark.parametrize(
    "other",
    [
        {"sandbox": "two"},
        {"host": "b.example.com"},
        {"port": 8443},
        {"alpn": (b"h2",)},
        {"pins": frozenset({"sha256/x"})},
    ],
)
def test_another_question_finds_no_answer(other: dict[str, object]) -> None:
    kept = UpstreamSessions()
    kept.keep(KEY, Place().visit(), 100.0)
    assert kept.find(dataclasses.replace(KEY, **other), 100.0) is None  # type: ignore[arg-type]
    assert kept.find(KEY, 100.0) is not None


@pytest.mark.parametrize("moment", [100.0 + sessions.MAX_SESSION_AGE, 99.0])
def test_a_verification_is_not_good_for_ever(moment: float) -> None:
    kept = UpstreamSessions()
    kept.keep(KEY, Place().visit(), 100.0)
    assert kept.find(KEY, moment) is None
    assert kept.find(KEY, 100.0) is None, "it is gone"


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
    place, kept = Place(), UpstreamSessions()
    keys = [dataclasses.replace(KEY, port=port) for port in (1, 2, 3)]
    kept.keep(keys[0], place.visit(), 0.0)
    kept.keep(keys[1], place.visit(), 0.0)
    assert kept.find(keys[0], 0.0)
    kept.keep(keys[2], place.visit(), 0.0)
    assert [kept.find(key, 0.0) is not None for key in keys] == [True, False, True]


def test_a_sandbox_that_ended_leaves_nothing() -> None:
    place, kept = Place(), UpstreamSessions()
    other = dataclasses.replace(KEY, sandbox="two")
    kept.keep(KEY, place.visit(), 0.0)
    kept.keep(other, place.visit(), 0.0)
    kept.forget("one")
    assert kept.find(KEY, 0.0) is None
    assert kept.find(other, 0.0) is not None


def test_a_connection_without_a_session_keeps_nothing() -> None:
    kept = UpstreamSessions()
    kept.keep(KEY, Place().ours.connecting(HOST, ()), 0.0)
    assert kept.find(KEY, 0.0) is None
