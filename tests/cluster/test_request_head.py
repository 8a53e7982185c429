"""The head of a request: the token is in it, and no name of an object begins a header."""

from __future__ import annotations

import pytest

from egress.cluster.api_server import ClusterApi
from egress.cluster.request_head import request_head
from egress.errors import UsageError

API = ClusterApi("fd00::1", 443, "agents", b"", b"made-up-token", prefix="/k8s/one")
PODS = "/api/v1/namespaces/agents/pods"


def test_a_head_names_the_server_and_proves_who_calls() -> None:
    head = request_head(API, "GET", PODS, (("X-One", "1"),)).decode()
    assert head.startswith(f"GET /k8s/one{PODS} HTTP/1.1\r\nHost: [fd00::1]:443\r\n")
    assert head.endswith("Authorization: Bearer made-up-token\r\nX-One: 1\r\n\r\n")


def test_without_a_token_no_token_is_sent() -> None:
    assert b"Authorization" not in request_head(ClusterApi("one", 1, "agents", b""), "GET", PODS)


@pytest.mark.parametrize("name", ["one\r\nX: y", "one\0", "w\u00fcrfel"])
def test_a_name_cannot_begin_a_header(name: str) -> None:
    with pytest.raises(UsageError):
        request_head(API, "GET", f"{PODS}/{name}")
    assert request_head(API, "GET", API.namespaced("pods", name)).isascii()


def test_a_name_stays_one_part_of_the_path() -> None:
    assert API.namespaced("pods", "a/../b") == f"{PODS}/a%2F..%2Fb"
