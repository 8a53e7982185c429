"""The server of a trial: it says who it is, and remembers what it was asked with."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from egress.cli.sandboxes.stacks.trial_upstream import HOST, TrialUpstream
from egress.proxy.clock import SystemClock


def ask(upstream: TrialUpstream, path: str, trusted: Path | None, **headers: str) -> None:
    tls = ssl.create_default_context(cafile=trusted)
    # The name in its certificate leads nowhere without the proxy.
    tls.check_hostname = False
    request = urllib.request.Request(f"https://127.0.0.1:{upstream.port}{path}", headers=headers)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
    )
    with opener.open(request, timeout=20) as answer:
        assert answer.read() == b"{}\n"


def test_what_it_was_asked_with_is_remembered_by_page(tmp_path: Path) -> None:
    with TrialUpstream(tmp_path, SystemClock().now()) as upstream:
        ask(upstream, "/curl", upstream.trusted)
        ask(upstream, "/git.git/info/refs?service=x", upstream.trusted, Authorization="Bearer a")
        ask(upstream, "/git.git/info/refs", upstream.trusted, Authorization="Bearer b")
        assert upstream.seen("curl") == {""}
        assert upstream.seen("git") == {"Bearer a", "Bearer b"}
        assert upstream.seen("wget") == frozenset()


def test_nobody_trusts_it_who_was_not_told_to(tmp_path: Path) -> None:
    with TrialUpstream(tmp_path, SystemClock().now()) as upstream:
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            ask(upstream, "/curl", None)
        assert upstream.seen("curl") == frozenset()


def test_its_key_is_not_left_lying_about(tmp_path: Path) -> None:
    with TrialUpstream(tmp_path, SystemClock().now()):
        assert [each.name for each in tmp_path.iterdir()] == ["upstream-ca.pem"]
        assert b"PRIVATE" not in (tmp_path / "upstream-ca.pem").read_bytes()
    assert HOST.endswith(".test")
