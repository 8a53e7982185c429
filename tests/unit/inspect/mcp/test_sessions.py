"""Sessions of a sandbox: bounded, by server, and with the requests that are open."""

from __future__ import annotations

from egress.inspect.mcp.sessions import (
    MAX_OPEN_REQUESTS,
    MAX_SESSIONS_OF_SANDBOX,
    McpSessions,
    OpenRequests,
)

HOST = "mcp.example.test"


def test_a_session_is_known_at_its_server_alone() -> None:
    sessions = McpSessions()
    session = sessions.bind(HOST, 443, "s")
    assert sessions.find(HOST, 443, "s") is session
    assert sessions.bind(HOST, 443, "s") is session
    assert sessions.find(HOST, 8443, "s") is None
    assert sessions.find("other.example.test", 443, "s") is None
    assert McpSessions().find(HOST, 443, "s") is None
    sessions.end(HOST, 443, "s")
    sessions.end(HOST, 443, "s")
    assert sessions.find(HOST, 443, "s") is None


def test_the_session_that_rests_longest_makes_room() -> None:
    sessions = McpSessions()
    for number in range(MAX_SESSIONS_OF_SANDBOX):
        sessions.bind(HOST, 443, str(number))
    assert sessions.find(HOST, 443, "0") is not None
    sessions.bind(HOST, 443, "new")
    assert sessions.find(HOST, 443, "0") is not None
    assert sessions.find(HOST, 443, "1") is None


def test_open_requests_are_known_by_type_and_bounded() -> None:
    requests = OpenRequests()
    requests.add(1, "roots/list")
    assert requests.method_of(1) == "roots/list"
    assert requests.method_of("1") == ""
    requests.close("1")
    assert requests.method_of(1) == "roots/list"
    requests.close(1)
    requests.close(1)
    assert requests.method_of(1) == ""
    requests.add(2, "tools/list")
    requests.add(2, "tools/list")
    assert requests.method_of(2) == "tools/list"
    requests.add(2, "ping")
    assert requests.method_of(2) == ""
    requests.close(2)
    for number in range(MAX_OPEN_REQUESTS + 1):
        requests.add(number, "x")
    assert requests.method_of(0) == ""
    assert requests.method_of(1) == "x"
