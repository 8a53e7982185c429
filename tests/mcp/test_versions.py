"""Which version is spoken, and what it wants of requests and results."""

from __future__ import annotations

import pytest

from egress.mcp.jsonrpc import INVALID_PARAMS, RpcError
from egress.mcp.versions import (
    ENVELOPE_VERSIONS,
    HANDSHAKE_VERSIONS,
    UNSUPPORTED_VERSION,
    agreed_version,
    dressed_result,
    envelope_version,
    progress_token,
)
from tests.mcp.lab import ENVELOPE, request

VERSION, CAPABILITIES = ENVELOPE


def test_a_handshake_agrees_on_the_version_of_the_client_or_on_the_newest() -> None:
    for version in HANDSHAKE_VERSIONS:
        assert agreed_version(version) == version
    for other in ("2023-01-01", ENVELOPE_VERSIONS[0], "", "x" * 10_000):
        assert agreed_version(other) == HANDSHAKE_VERSIONS[-1]
    with pytest.raises(RpcError):
        agreed_version(None)


@pytest.mark.parametrize(
    "meta", [None, [], {}, {VERSION: "2026-07-28"}, {**ENVELOPE, VERSION: 1}, {**ENVELOPE, CAPABILITIES: 1}]
)
def test_an_envelope_has_version_and_capabilities(meta: object) -> None:
    with pytest.raises(RpcError) as caught:
        envelope_version({"_meta": meta})
    assert caught.value.code == INVALID_PARAMS


def test_another_version_is_refused_with_those_that_are_spoken() -> None:
    assert envelope_version({"_meta": ENVELOPE}) == "2026-07-28"
    with pytest.raises(RpcError) as caught:
        envelope_version({"_meta": {**ENVELOPE, VERSION: "2027-01-01"}})
    assert caught.value.code == UNSUPPORTED_VERSION
    assert caught.value.data == {"supported": ENVELOPE_VERSIONS, "requested": "2027-01-01"}


def test_only_results_of_newer_requests_say_more() -> None:
    assert dressed_result(request("tools/list"), {"tools": []}) == {"tools": []}
    found = dressed_result(request("tools/list", _meta=dict(ENVELOPE)), {"tools": []})
    assert (found["resultType"], found["cacheScope"]) == ("complete", "private")
    assert "ttlMs" not in dressed_result(request("tools/call", _meta=dict(ENVELOPE)), {})


def test_a_progress_token_is_a_number_or_a_text() -> None:
    assert progress_token({}) is None
    assert progress_token({"_meta": {"progressToken": 0}}) == 0
    assert progress_token({"_meta": {"progressToken": "a"}}) == "a"
    refused: tuple[object, ...] = (True, 1.5, [], {})
    for token in refused:
        with pytest.raises(RpcError):
            progress_token({"_meta": {"progressToken": token}})
