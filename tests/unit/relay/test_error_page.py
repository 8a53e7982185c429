"""The pages of our own: their forms, their fields, and that nothing foreign is in them."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
from inline_snapshot import snapshot

from egress.errors import CODES
from egress.http1 import Framing, ResponseReader, encode_response_head
from egress.http1.heads import Data, End, ResponseHead
from egress.relay.error_page import ErrorPage, error_page, grpc_error_page

ID = "01J8-abc"
HOSTILE = "<script>\r\nset-cookie: a=1\r\n\r\nhunter2 \xe9\u0100\0"


def shown(made: ErrorPage) -> str:
    """The page as people read it."""
    fields = "".join(f"{name}: {value}\n" for name, value in made.headers)
    return f"{made.status} {made.reason}\n{fields}\n{made.body.decode()}"


def kind_of(made: ErrorPage) -> str:
    return dict(made.headers)["content-type"].partition(";")[0]


# The forms ------------------------------------------------------------------------------------


def test_a_program_gets_json() -> None:
    assert shown(error_page("rule.none", ID)) == snapshot("""\
403 Egress rule.none (egress log suggest 01J8-abc)
content-type: application/json
content-length: 240
cache-control: no-store
egress-denied: rule.none
egress-request: 01J8-abc
x-should-retry: false
x-content-type-options: nosniff

{
  "error": {
    "code": "rule.none",
    "message": "No rule allows this request.",
    "hint": "Ask the operator of this sandbox to allow it in the rules.",
    "request": "01J8-abc",
    "operator": "egress log suggest 01J8-abc"
  }
}
""")


def test_git_gets_text_because_it_shows_nothing_else() -> None:
    made = error_page("rule.none", ID, accept="*/*", user_agent="git/2.39.5")
    assert shown(made) == snapshot("""\
403 Egress rule.none (egress log suggest 01J8-abc)
content-type: text/plain; charset=utf-8
content-length: 172
cache-control: no-store
egress-denied: rule.none
egress-request: 01J8-abc
x-should-retry: false
x-content-type-options: nosniff

Egress: No rule allows this request. (rule.none)
Ask the operator of this sandbox to allow it in the rules.
Request: 01J8-abc
For the operator: egress log suggest 01J8-abc
""")


def test_who_has_to_wait_is_told_how_long() -> None:
    assert shown(error_page("limit.requests", ID, retry_after=30)) == snapshot("""\
429 Egress limit.requests
content-type: application/json
content-length: 149
cache-control: no-store
egress-denied: limit.requests
egress-request: 01J8-abc
retry-after: 30
x-content-type-options: nosniff

{
  "error": {
    "code": "limit.requests",
    "message": "Too many requests.",
    "hint": "Wait and try again.",
    "request": "01J8-abc"
  }
}
""")


def test_who_has_to_authenticate_is_told_how() -> None:
    assert shown(error_page("proxy.authentication", ID)) == snapshot("""\
407 Egress proxy.authentication
content-type: application/json
content-length: 207
cache-control: no-store
egress-denied: proxy.authentication
egress-request: 01J8-abc
x-content-type-options: nosniff
proxy-authenticate: Basic realm="egress"

{
  "error": {
    "code": "proxy.authentication",
    "message": "This proxy needs the password of the sandbox.",
    "hint": "Use the proxy address the sandbox was given.",
    "request": "01J8-abc"
  }
}
""")


def test_a_grpc_client_gets_trailers_alone() -> None:
    assert shown(error_page("rule.denied", ID, content_type="application/grpc+proto")) == snapshot("""\
200 Egress rule.denied (egress log suggest 01J8-abc)
content-type: application/grpc
grpc-status: 7
grpc-message: A rule denies this request. Ask the operator of this sandbox to allow it in the rules. (rule.denied, request 01J8-abc)
cache-control: no-store
egress-denied: rule.denied
egress-request: 01J8-abc
x-should-retry: false

""")  # noqa: E501 - a line of a message
    assert error_page("rule.denied", ID, content_type="application/grpc") == grpc_error_page(
        "rule.denied", ID
    )


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain",
        "TEXT/plain ; q=0.5",
        "text/*",
        "text/plain, application/json;q=0.9",
        "text/html, text/plain;q=0.9, */*;q=0.8",
        "odd, text/plain",
        "*/*;q=0.1,text/plain;q=0.2",
        "application/json;q=0, text/plain;q=0.001",
    ],
)
def test_who_would_rather_read_text_gets_text(accept: str) -> None:
    assert kind_of(error_page("rule.none", ID, accept=accept)) == "text/plain"


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/json",
        "application/json, text/plain, */*",
        "text/plain, application/json",
        "text/html",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "application/vnd.github+json",
        "text/plain;q=0",
        "text/plain;q=2",
        "text/plain;q=0.5;q=1",
        "text/plain;q=0.12345",
        "text/plain;q=\u0661",
        "text/plain;charset=utf-16",
        "text /plain",
        "text/plain\n",
        "text/plain" + " " * 600,
        "text/plain," * 60,
        "," * 400,
        HOSTILE,
    ],
)
def test_everybody_else_gets_json_and_nobody_html(accept: str) -> None:
    assert kind_of(error_page("rule.none", ID, accept=accept)) == "application/json"


def test_git_lfs_gets_a_message_because_it_shows_nothing_else() -> None:
    told = json.loads(error_page("rule.none", ID, user_agent="git-lfs/3.3.0 (GitHub; linux amd64)").body)
    about = f"(rule.none, egress log suggest {ID})"
    assert told["message"] == f"Egress: {CODES['rule.none'].message} {CODES['rule.none'].hint} {about}"
    assert told["error"] == json.loads(error_page("rule.none", ID).body)["error"]
    assert "message" not in json.loads(error_page("rule.none", ID, user_agent="x git-lfs/3").body)


PAGE = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01"


def test_pip_gets_a_type_that_it_shows_for_the_page_of_a_package() -> None:
    made = error_page("host.unknown", ID, accept=PAGE, user_agent='pip/26.3 {"python":"3.13"}')
    assert (made.status, dict(made.headers)["content-type"]) == (
        300,
        f'text/plain; denied="Egress host.unknown (egress log suggest {ID})"',
    )
    assert dict(made.headers)["egress-denied"] == "host.unknown"
    assert ID in made.body.decode()


@pytest.mark.parametrize(
    ("accept", "agent"),
    [("*/*", "pip/26.3"), (PAGE, "uv/0.13"), (PAGE, "x pip/26.3"), (" " * 600 + PAGE, "pip/1")],
)
def test_everything_else_gets_its_403(accept: str, agent: str) -> None:
    made = error_page("host.unknown", ID, accept=accept, user_agent=agent)
    assert (made.status, kind_of(made)) == (403, "application/json")


@pytest.mark.parametrize("agent", ["git-lfs/3.4", "libgit/1", "Git/2", "x git/2", "", HOSTILE])
def test_only_git_itself_is_git(agent: str) -> None:
    assert kind_of(error_page("rule.none", ID, user_agent=agent)) == "application/json"


@pytest.mark.parametrize(
    ("content_type", "reply"),
    [
        ("application/grpc", "application/grpc"),
        ("Application/GRPC+json; x=y", "application/grpc"),
        ("application/grpc-web", "application/grpc-web+proto"),
        ("application/grpc-web+thrift", "application/grpc-web+proto"),
        ("application/grpc-web-text+proto", "application/grpc-web-text+proto"),
        ("application/grpcx", "application/json"),
        ("application/json", "application/json"),
        (HOSTILE, "application/json"),
    ],
)
def test_grpc_is_known_by_its_content_type(content_type: str, reply: str) -> None:
    assert kind_of(error_page("rule.none", ID, content_type=content_type)) == reply


# What stands in them --------------------------------------------------------------------------


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_page_that_can_be_written_and_read(code: str) -> None:
    made, known = error_page(code, ID, retry_after=5), CODES[code]
    framing = Framing.sized(len(made.body))
    wire = encode_response_head(made.status, made.reason, made.headers, framing, method="CONNECT", close=True)
    reader = ResponseReader()
    reader.expect("CONNECT")
    events = reader.feed(wire + made.body)
    head = events[0]
    assert isinstance(head, ResponseHead)
    command = {"operator": f"egress log suggest {ID}"} if known.status in (403, 426) else {}
    about = f" ({command['operator']})" if command else ""
    assert (head.status, head.reason) == (known.status, f"Egress {code}{about}")
    fields = dict(head.headers)
    assert (fields.get("x-should-retry") == "false") is known.is_final
    assert fields["egress-denied"] == code
    assert fields["egress-request"] == ID
    assert fields["retry-after"] == "5"
    assert fields["connection"] == "close"
    assert ("proxy-authenticate" in fields) is (head.status == 407)
    body = b"".join(event.data for event in events if isinstance(event, Data))
    assert json.loads(body) == {
        "error": {
            "code": code,
            "message": CODES[code].message,
            "hint": CODES[code].hint,
            "request": ID,
            **command,
        }
    }
    assert isinstance(events[-1], End)


@pytest.mark.parametrize("code", CODES)
def test_text_says_the_same(code: str) -> None:
    made = error_page(code, ID, accept="text/plain")
    text = made.body.decode("ascii")
    assert all(word in text for word in (code, CODES[code].message, CODES[code].hint, ID))
    assert dict(made.headers)["content-length"] == str(len(made.body))


@pytest.mark.parametrize("code", ["lane.ended", "rule.allowed", "", HOSTILE])
def test_a_code_that_is_none_is_shown_as_internal(code: str) -> None:
    assert error_page(code, ID) == error_page("internal", ID)
    assert grpc_error_page(code, ID) == grpc_error_page("internal", ID)


def test_nothing_foreign_is_quoted() -> None:
    """Neither what the client sends to choose a form, nor an id that cannot be one of ours."""
    foreign = error_page("rule.none", HOSTILE, accept=HOSTILE, user_agent=HOSTILE, content_type=HOSTILE)
    assert foreign == error_page("rule.none", "")
    assert "egress-request" not in dict(foreign.headers)
    assert grpc_error_page("rule.none", HOSTILE) == grpc_error_page("rule.none", "")
    assert error_page("rule.none", "x" * 65) == error_page("rule.none", "")


def test_a_status_of_an_error_may_be_chosen_and_no_other() -> None:
    assert error_page("request.malformed", ID, status=431).status == 431
    assert error_page("request.malformed", ID, status=501).status == 501
    for status in (None, 0, 200, 302, 399, 600):
        assert error_page("request.malformed", ID, status=status).status == 400


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time_to_wait_is_not_stated(seconds: int) -> None:
    assert "retry-after" not in dict(error_page("limit.requests", ID, retry_after=seconds).headers)


# gRPC -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("rule.denied", "7"),
        ("host.unknown", "7"),
        ("request.mismatch", "7"),
        ("response.withheld", "7"),
        ("address.refused", "7"),
        ("redirect.refused", "7"),
        ("limit.response_body", "7"),
        ("request.malformed", "3"),
        ("proxy.authentication", "16"),
        ("upstream.timeout", "4"),
        ("limit.requests", "8"),
        ("limit.request_body", "8"),
        ("internal", "13"),
        ("upstream.unreachable", "14"),
        ("secret.unavailable", "7"),
        ("upstream.tls", "7"),
        ("proxy.stopping", "14"),
    ],
)
def test_a_refusal_is_never_one_that_a_grpc_client_tries_again(code: str, number: str) -> None:
    assert dict(grpc_error_page(code, ID).headers)["grpc-status"] == number


@pytest.mark.parametrize("code", CODES)
def test_a_grpc_message_can_be_written(code: str) -> None:
    made = grpc_error_page(code, ID, retry_after=1)
    message = dict(made.headers)["grpc-message"]
    assert message.isascii()
    assert message.isprintable()
    assert CODES[code].message in message
    assert (made.status, made.body) == (200, b"")


def test_a_grpc_message_is_percent_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    from egress.errors import RefusalCode

    monkeypatch.setitem(CODES, "rule.none", RefusalCode(403, "100 %\n\xe9", "~"))
    assert dict(grpc_error_page("rule.none", "").headers)["grpc-message"] == "100 %25%0A%C3%A9 ~ (rule.none)"


BECAUSE = "Keys are closed: 100% of them, \u00e9."


def test_the_reason_of_a_deny_is_part_of_the_message() -> None:
    """Most clients show the message and nothing else."""
    told = json.loads(error_page("rule.denied", ID, denied_because=BECAUSE).body)["error"]
    assert told["reason"] == BECAUSE
    assert told["message"] == f"{CODES['rule.denied'].message} {BECAUSE}"
    assert "reason" not in json.loads(error_page("rule.denied", ID).body)["error"]
    text = error_page("rule.denied", ID, user_agent="git/2.4", denied_because=BECAUSE).body.decode()
    assert text.startswith(f"Egress: {CODES['rule.denied'].message} {BECAUSE} (rule.denied)\n")
    grpc = error_page("rule.denied", ID, content_type="application/grpc", denied_because=BECAUSE)
    assert "Keys are closed: 100%25 of them, %C3%A9." in dict(grpc.headers)["grpc-message"]
    assert BECAUSE not in error_page("no.such", ID, denied_because=BECAUSE).body.decode()


AWS_CLIENTS = (
    "Boto3/1.44.5 md/Botocore#1.44.5",
    "aws-cli/1.46.2 md/Botocore#1.44.5",
    "aws-sdk-go-v2/1.30.0 os/linux",
    "aws-sdk-js/3.600.0",
)


@pytest.mark.parametrize("agent", AWS_CLIENTS)
def test_a_client_of_aws_gets_the_xml_that_it_shows(agent: str) -> None:
    made = error_page(
        "rule.denied", ID, user_agent=agent, denied_because="Not <this> & \x1b \u2028 not that."
    )
    assert dict(made.headers)["content-type"] == "text/xml; charset=utf-8"
    root = ET.fromstring(made.body)
    assert (root.tag, root.findtext("Error/Code"), root.findtext("RequestId")) == (
        "ErrorResponse",
        "rule.denied",
        ID,
    )
    assert root.findtext("Error/Message") == (
        "Egress: A rule denies this request. Not <this> &     not that. Ask the operator of this sandbox to"
        f" allow it in the rules. (rule.denied, egress log suggest {ID})"
    )


@pytest.mark.parametrize("agent", AWS_CLIENTS)
def test_a_client_of_aws_that_sent_json_gets_json_with_its_message(agent: str) -> None:
    made = error_page("host.unknown", ID, user_agent=agent, content_type="application/x-amz-json-1.0")
    said = json.loads(made.body)
    assert said["message"].startswith("Egress: No rule names this host.")
    assert said["error"]["code"] == "host.unknown"


@pytest.mark.parametrize("agent", ["", "aws-cli", "curl/8 aws-cli/1", "aws-sdk-/1", "my-Boto3/1"])
def test_every_other_client_gets_what_it_got(agent: str) -> None:
    made = error_page("host.unknown", ID, user_agent=agent)
    assert dict(made.headers)["content-type"] == "application/json"
    assert "message" not in json.loads(made.body)
