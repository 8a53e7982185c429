"""The operator's calls with a real proxy: rules, status, secrets and probes, and clients that try them."""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from egress.api.operations import OPERATIONS
from egress.api.rules_schema import MAX_RULES_CHARS
from egress.api.schema import MAX_BODY_BYTES
from tests.api_server.operator_lab import SECRET, OperatorLab, operator_lab
from tests.cli.command import put
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["namespaces", "refusal"]

pytestmark = pytest.mark.system("curl", "curl")
EVIL = "version: 1\nmode: observe\nhosts: {}\n"


@pytest.fixture(scope="module")
def shared(refusal: str) -> Iterator[OperatorLab | None]:
    if refusal:
        yield None
        return
    with operator_lab("agent-1") as lab:
        # So that the secret is in use, in the log, and in nothing else.
        assert lab.status("agent-1", "/v1/user") == "200"
        yield lab


@pytest.fixture
def lab(namespaces: None, shared: OperatorLab | None) -> OperatorLab:
    assert shared is not None
    return shared


def _digest(lab: OperatorLab) -> str:
    found: str = lab.owner.ask("GET", "proxy").body["rules"]["digest"]
    return found


# Rules --------------------------------------------------------------------------------------------


def test_a_text_is_checked_and_not_put_in_force(lab: OperatorLab) -> None:
    before = _digest(lab)
    good = lab.owner.ask("POST", "rules/check", {"text": (lab.folder / "hosts.yaml").read_text()}).body
    assert good["ok"], good
    assert {each["severity"] for each in good["findings"]} == {"warning", "notice"}
    wrong = lab.owner.ask("POST", "rules/check", {"text": "version: 1\nhosts:\n  a.example: {alow: all}\n"})
    assert (wrong.status, wrong.body["ok"], wrong.body["digest"]) == (200, False, None)
    (found,) = wrong.body["findings"]
    assert (found["line"], found["message"], found["hint"]) == (
        3,
        "unknown key `alow`",
        "did you mean `allow`?",
    )
    assert lab.owner.ask("POST", "rules/check", {"text": EVIL}).body["ok"]
    assert _digest(lab) == before


HEAD = "version: 1\nhosts:\n  a.example.com:\n    allow:\n"
ANCHORS = zip("abcdefgh", "bcdefghi", strict=True)
STARS = "*a" * 40
SLOW = {
    "aliases": "a: &a [1,2,3]\n" + "".join(f"{b}: &{b} [*{a},*{a},*{a},*{a}]\n" for a, b in ANCHORS),
    "depth": "[" * (MAX_RULES_CHARS - 1),
    "patterns": HEAD + "".join(f"      - {{id: r{n}, paths: ['/{STARS}/{n}/**']}}\n" for n in range(1500)),
    "stars": HEAD + f"      - {{id: r, paths: ['/{'**/*' * 20000}']}}\n",
    "hosts": "version: 1\nhosts:\n" + "".join(f"  '*.h{n}.example.com': {{}}\n" for n in range(7000)),
    "key": "? " + "a" * (MAX_RULES_CHARS - 10) + "\n: 1\n",
    "merge": "a: &a {x: 1}\nb:\n  <<: *a\n",
    "tag": "!!python/object/apply:os.system ['id']\n",
}


def test_a_text_that_takes_minutes_is_given_up(lab: OperatorLab) -> None:
    """Each of thousands of mistakes is compared with names that look like it; the kernel ends that."""
    hosts = "".join(f"  h{n}.example.com: {{}}\n" for n in range(2500))
    unknown = ", ".join(f"h{n}.example.net" for n in range(10_500))
    text = f"version: 1\nhosts:\n{hosts}profiles:\n  one: {{hosts: [{unknown}]}}\n"
    assert len(text) < MAX_RULES_CHARS
    answer = lab.owner.ask("POST", "rules/check", {"text": text})
    assert (answer.status, answer.body["type"]) == (422, "rules.unchecked")


@pytest.mark.parametrize("name", SLOW)
def test_a_text_that_is_meant_to_be_slow_is_answered(lab: OperatorLab, name: str) -> None:
    answer = lab.owner.ask("POST", "rules/check", {"text": SLOW[name][:MAX_RULES_CHARS]})
    assert answer.status == 200, answer.body
    assert answer.body["ok"] == (name in ("hosts", "patterns")), answer.body["findings"][:2]
    assert lab.status("agent-1", "/v1/user") == "200"


def test_a_text_that_is_too_long_is_refused_before_it_is_read(lab: OperatorLab) -> None:
    too_long = lab.owner.ask("POST", "rules/check", {"text": " " * (MAX_RULES_CHARS + 1)})
    assert (too_long.status, too_long.body["type"]) == (400, "request.invalid")
    huge = lab.owner.ask("POST", "rules/check", b" " * (MAX_BODY_BYTES + 1))
    assert (huge.status, huge.body["type"]) == (400, "request.invalid")


def test_a_client_of_the_port_that_sends_100_mb_is_answered_at_once(lab: OperatorLab) -> None:
    with socket.create_connection(("127.0.0.1", lab.client.port), 30) as sock:
        head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {lab.token}\r\nContent-Length: 100000000"
        sock.sendall(f"POST /v1/rules/check HTTP/1.1\r\n{head}\r\n\r\n".encode() + b" " * 65536)
        # Nothing more is sent: the answer does not wait for it.
        assert sock.recv(12) == b"HTTP/1.1 404"
    with socket.create_connection(("127.0.0.1", lab.client.port), 30) as sock:
        sock.sendall(f"POST /v1/sandboxes/agent-1/policy/grants HTTP/1.1\r\n{head}\r\n\r\n".encode())
        received = b""
        try:
            while not received:
                sock.sendall(b" " * 1_000_000)
                sock.setblocking(False)
                try:
                    received = sock.recv(12)
                except BlockingIOError:
                    sock.settimeout(30)
        except (BrokenPipeError, ConnectionResetError):
            received = b"closed"
        assert received in (b"HTTP/1.1 400", b"closed")


def test_a_reload_reads_the_files_of_the_proxy_and_no_others(lab: OperatorLab) -> None:
    before = _digest(lab)
    evil = put(lab.folder / "evil.yaml", EVIL)
    assert lab.owner.ask("POST", f"rules/reload?rules={evil}").status == 400
    lab.owner.ask("POST", "rules/reload", {"rules": str(evil), "files": [str(evil)]})
    assert _digest(lab) == before
    # The control: the proxy's own file is read again, and one with a mistake changes nothing.
    lab.write_rules("# another comment\n")
    # The proxy watches the file, too, and may have been faster.
    again = lab.owner.ask("POST", "rules/reload")
    assert (again.status, again.body["policy"]) == (200, _digest(lab))
    assert _digest(lab) != before
    put(lab.folder / "hosts.yaml", "version: 1\nhosts: {a.example.com: {alow: all}}\n")
    wrong = lab.owner.ask("POST", "rules/reload")
    assert (wrong.status, wrong.body["type"]) == (409, "rules.refused")
    assert "unknown key `alow`" in wrong.body["message"]
    assert lab.owner.ask("GET", "proxy").body["rules"]["refused"]
    assert lab.status("agent-1", "/v1/user") == "200"
    lab.write_rules()
    assert lab.owner.ask("POST", "rules/reload").status == 200
    assert _digest(lab) == before


def test_a_request_is_explained_for_a_profile(lab: OperatorLab) -> None:
    def asked(**others: object) -> dict[str, object]:
        found: dict[str, object] = lab.owner.ask(
            "POST", "rules/explain", {"url": "https://private.example.com/", **others}
        ).body
        return found

    assert (asked()["verdict"], asked()["code"]) == ("deny", "profile.excluded")
    assert asked(profile="wide")["verdict"] == "allow"
    assert asked(profile="none")["code"] == "profile.unknown"
    assert asked(url="nowhere at all")["type"] == "spec.invalid"


# Status and secrets -------------------------------------------------------------------------------


def test_the_proxy_tells_what_it_does(lab: OperatorLab) -> None:
    found = lab.owner.ask("GET", "proxy").body
    assert (found["ready"], found["problems"], found["rules"]["files"]) == (True, [], ["hosts.yaml"])
    assert found["run"] == lab.owner.ask("GET", "about").body["run"]
    assert sum(found["requests"].values()) > 0


def test_secrets_have_names_and_states_and_no_values(lab: OperatorLab) -> None:
    def states() -> dict[str, str]:
        found = lab.owner.ask("GET", "secrets").body["secrets"]
        return {each["name"]: each["state"] for each in found}

    assert states() == {"missing": "unavailable", "tracker": "resolved"}
    missing, tracker = lab.owner.ask("GET", "secrets").body["secrets"]
    assert (missing["source"], missing["age"], bool(missing["cause"])) == ("file", None, True)
    assert (tracker["source"], tracker["cause"]) == ("env", "")
    assert tracker["age"] >= 0
    assert lab.egress("kill", "tracker").status == 0
    assert states()["tracker"] == "revoked"
    assert lab.egress("kill", "--undo", "tracker").status == 0
    assert lab.status("agent-1", "/v1/user") == "200"
    assert states()["tracker"] == "resolved"


def test_no_answer_of_any_call_has_a_secret(lab: OperatorLab) -> None:
    """Every call without a body, and those that explain, at both entrances."""
    said = ""
    for operation in OPERATIONS.values():
        is_plain = operation.method == "GET" and operation.returns in ("json", "lines", "bytes")
        if not is_plain or operation.name == "read_output":
            continue
        target = operation.path.removeprefix("/v1/").format(name="agent-1", process="x", session="x")
        for entrance in (lab.owner, lab.client):
            said += str(entrance.ask("GET", target).body)
    request = {"url": f"{lab.url}/v1/user", "headers": {"authorization": "Bearer dummy"}}
    for entrance in (lab.owner, lab.client):
        said += json.dumps(entrance.ask("POST", "sandboxes/agent-1/policy/explain", request).body)
    said += json.dumps(lab.owner.ask("POST", "rules/explain", request).body)
    # The control: the answers are about that secret.
    assert said.count("tracker") > 5
    for form in (SECRET, base64.b64encode(SECRET.encode()).decode(), SECRET.encode().hex(), SECRET[:12]):
        assert form not in said


OWNERS_ALONE = [each for each in OPERATIONS.values() if each.owner_only]


@pytest.mark.parametrize("operation", OWNERS_ALONE, ids=lambda each: each.name)
def test_a_client_of_the_port_has_no_call_of_the_owner(lab: OperatorLab, operation: object) -> None:
    method, path = getattr(operation, "method", ""), getattr(operation, "path", "").removeprefix("/v1/")
    for spelling in (path, f"{path}/", f"./{path}", path.upper(), f"sandboxes/../{path}", f"/{path}"):
        body = {"text": EVIL} if method == "POST" else None
        assert lab.client.ask(method, spelling, body).status in (404, 405), spelling
    assert lab.owner.ask("GET", "about").status == 200


# Progress -----------------------------------------------------------------------------------------


def test_a_sandbox_and_its_snapshot_are_made_with_progress(lab: OperatorLab) -> None:
    for entrance, name in ((lab.owner, "made-1"), (lab.client, "made-2")):
        *told, (kind, made) = entrance.events("PUT", f"sandboxes/{name}", {})
        assert (kind, made["state"]) == ("result", "running")
        assert {event for event, _ in told} <= {"progress"}
        *_, (kind, kept) = entrance.events("PUT", f"snapshots/{name}", {"sandbox": name})
        assert (kind, kept["sandbox"]) == ("result", name)
        *_, (kind, said) = entrance.events("PUT", f"snapshots/{name}", {"sandbox": name})
        assert (kind, said["type"]) == ("problem", "snapshot.exists")
        assert entrance.ask("DELETE", f"sandboxes/{name}").status == 204


# Probes -------------------------------------------------------------------------------------------


def _bare(lab: OperatorLab, method: str, target: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """A request without a token, and with this `Host`."""
    connection = http.client.HTTPConnection("127.0.0.1", lab.client.port, timeout=30)
    with closing(connection):
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": "10.1.2.3:8700", **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        return response.status, response.read(), dict(response.headers)


def test_a_probe_needs_no_token_and_is_told_nothing_else(lab: OperatorLab) -> None:
    assert _bare(lab, "GET", "/v1/healthz") == (200, b"", {"content-length": "0"})
    assert lab.owner.ask("GET", "healthz").status == 200


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/about"),
        ("GET", "/v1/healthz?x"),
        ("POST", "/v1/healthz"),
        ("HEAD", "/v1/healthz"),
        ("GET", "/v1/healthz/"),
        ("GET", "/v1/healthz/../about"),
        ("GET", "/v1/about?/v1/healthz"),
        ("GET", "//v1/healthz"),
        ("GET", "/v1/about#/v1/healthz"),
        ("GET", "http://10.1.2.3/v1/about"),
    ],
)
def test_nothing_else_goes_without_a_token(lab: OperatorLab, method: str, target: str) -> None:
    status, body, _ = _bare(lab, method, target, Host="127.0.0.1")
    assert status in (401, 429, 400)
    assert b"version" not in body


def test_a_page_in_a_browser_cannot_probe(lab: OperatorLab) -> None:
    assert _bare(lab, "GET", "/v1/healthz", Origin="https://evil.example")[0] == 403
