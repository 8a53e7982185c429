"""The log over the API, with a real proxy: pages, new lines, and lines that a client must not see."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from egress import AsyncSandbox, Sandbox, UsageError
from egress.api_server.run_log import MAX_FOLLOWERS
from egress.cli.stand_in_api import NAME
from tests.api_server.lab import Answer
from tests.api_server.operator_lab import SECRET, ApiEntrance, OperatorLab, operator_lab
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["namespaces", "refusal"]

pytestmark = pytest.mark.system("curl", "curl")
DENIED = [f"/denied/{number}" for number in range(7)]
OTHER_RUN = {
    "event": "exchange",
    "sandbox": "agent-1",
    "host": "other-run.example.com",
    "verdict": "deny",
    "run": "another",
}


@pytest.fixture(scope="module")
def shared(refusal: str) -> Iterator[OperatorLab | None]:
    if refusal:
        yield None
        return
    with operator_lab("agent-1", "other") as lab:
        for path in DENIED:
            assert lab.status("agent-1", path) == "403"
        assert lab.status("agent-1", "/v1/user") == "200"
        assert lab.status("other", "/denied/of-other") == "403"
        _add_line_of_another_run(lab.folder)
        yield lab


def _add_line_of_another_run(folder: Path) -> None:
    """Write a line as another run of the same user has it. Nothing here verifies the chain."""
    (folder / "state/audit/chains/0002").mkdir(parents=True)
    line = {"seq": 1, "time": "2026-11-20T06:03:55.507802Z", **OTHER_RUN, "mac": "0" * 64}
    (folder / "state/audit/chains/0002/audit-000001.jsonl").write_text(json.dumps(line) + "\n")


@pytest.fixture
def lab(namespaces: None, shared: OperatorLab | None) -> OperatorLab:
    assert shared is not None
    return shared


def _lines(answer: Answer) -> list[dict[str, object]]:
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.body.splitlines()]


def _audit(entrance: ApiEntrance, query: str = "", name: str = "agent-1") -> list[dict[str, object]]:
    return _lines(entrance.ask("GET", f"sandboxes/{name}/audit{query}"))


def test_a_line_is_there_as_soon_as_its_request_is_answered(lab: OperatorLab) -> None:
    found = _audit(lab.client, "?verdict=deny&host=api.*&limit=3&grep=/denied/")
    assert [line["path"] for line in found] == DENIED[:-4:-1]
    assert {line["sandbox"] for line in _audit(lab.client)} == {"agent-1"}
    sent, *_ = _audit(lab.client, "?secret=tracker")
    assert (sent["path"], sent["status"]) == ("/v1/user", 200)


def test_no_line_is_missed_by_a_question_right_behind_its_request(lab: OperatorLab) -> None:
    for number in range(5):
        lab.status("other", f"/just-now/{number}")
        found = _audit(lab.client, "?grep=/just-now/&limit=1", "other")
        assert [line["path"] for line in found] == [f"/just-now/{number}"]


def test_pages_are_complete_and_stable_while_lines_are_added(lab: OperatorLab) -> None:
    cursor, found = "", []
    for _ in range(10):
        answer = lab.client.ask("GET", f"sandboxes/agent-1/audit?grep=/denied/&limit=2&cursor={cursor}")
        found += _lines(answer)
        cursor = answer.headers["egress-cursor"] or ""
        if not cursor:
            break
        assert lab.status("agent-1", "/v1/user") == "200"
    assert [line["path"] for line in found] == DENIED[::-1]


def test_a_client_sees_no_line_of_another_run_or_sandbox(lab: OperatorLab) -> None:
    everything = (
        *_audit(lab.owner),
        *_lines(lab.owner.ask("GET", "log?limit=500")),
        *_audit(lab.client, "?grep=other-run"),
        *_audit(lab.client, "?event=started"),
        *_audit(lab.client, name="nobody"),
    )
    assert "other-run" not in json.dumps(everything)
    assert {line["run"] for line in everything} == {everything[0]["run"]}
    assert not _audit(lab.client, "?grep=of-other")
    # The control: they are there for whoever may read the files.
    assert "other-run" in lab.egress("log", "query", "--run", "another", "--json").out
    assert [line["path"] for line in _audit(lab.client, "?grep=/denied/", "other")] == ["/denied/of-other"]


@pytest.mark.parametrize("name", ["*", "agent-*", "agent-1%0Aother", "..", "%2A", "agent-1'%20OR%201"])
def test_a_name_is_no_pattern(lab: OperatorLab, name: str) -> None:
    answer = lab.client.ask("GET", f"sandboxes/{name}/audit")
    assert answer.status in (404, 422), answer.body


def test_the_whole_log_is_for_the_owner_alone(lab: OperatorLab) -> None:
    found = _lines(lab.owner.ask("GET", "log?limit=500"))
    assert {"agent-1", "other"} <= {line.get("sandbox") for line in found}
    assert found[-1]["event"] == "started"
    (one,) = _lines(lab.owner.ask("GET", "log?sandbox=other&verdict=deny&grep=/denied/"))
    assert (one["path"], bool(one["mac"])) == ("/denied/of-other", True)
    for target in ("log", "log?sandbox=agent-1", "log/suggestion?request=x", "log/", "LOG"):
        assert lab.client.ask("GET", target).status == 404, target


def test_a_client_of_the_port_sees_neither_places_nor_addresses(lab: OperatorLab) -> None:
    full, bare = _audit(lab.owner, "?grep=/v1/user"), _audit(lab.client, "?grep=/v1/user")
    assert (full[0]["place"], full[0]["address"]) == ("hosts.yaml:9", "127.0.0.1")
    assert bare == [{k: v for k, v in each.items() if k not in ("place", "address", "mac")} for each in full]
    assert SECRET not in json.dumps(full)


@pytest.mark.parametrize("text", ["hosts.yaml:9", "hosts.yaml", "127.0.0.1"])
def test_a_client_of_the_port_cannot_guess_them_by_a_search(lab: OperatorLab, text: str) -> None:
    path = f"sandboxes/agent-1/audit?grep={text}&limit=1"
    answer = lab.client.ask("GET", path)
    assert (_lines(answer), answer.headers["egress-cursor"]) == ([], None)
    seen = _audit(lab.client, "?grep=api.")
    assert seen
    assert text == "127.0.0.1" or _lines(lab.owner.ask("GET", path))


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("cursor=1:2", "usage"),
        ("cursor=1:2:x", "usage"),
        ("cursor=-1:2:3", "usage"),
        ("cursor=1%0A:2:3", "usage"),
        ("cursor=%D9%A1:2:3", "usage"),
        ("since=yesterday", "usage"),
        ("until=2h%0A1", "usage"),
        ("status=0xx", "usage"),
        ("verdict=maybe", "request.invalid"),
        ("run=another", "request.invalid"),
        ("sandbox=other", "request.invalid"),
        ("limit=501", "request.invalid"),
        ("limit=0", "request.invalid"),
        ("limit=1e3", "request.invalid"),
        (f"grep={'a' * 513}", "request.invalid"),
        (f"cursor={'9' * 65}", "request.invalid"),
        ("host=a&host=b", "request.invalid"),
    ],
)
def test_what_no_line_can_fit_is_refused(lab: OperatorLab, query: str, kind: str) -> None:
    answer = lab.client.ask("GET", f"sandboxes/agent-1/audit?{query}")
    assert answer.body["type"] == kind
    assert answer.status == (422 if kind == "usage" else 400)


@pytest.mark.parametrize(
    "cursor",
    ["0:0:0", f"{2**62}:{2**62}:{2**62}", "9" * 20 + ":1:1", "1795154635507802:1:7", f"{2**62}:1:99"],
)
def test_a_cursor_of_a_clients_own_leads_to_no_other_lines(lab: OperatorLab, cursor: str) -> None:
    for line in _audit(lab.client, f"?limit=500&cursor={cursor}"):
        assert line["sandbox"] == "agent-1"
        assert line["run"] != "another"


@pytest.mark.parametrize(
    "text",
    [
        "%0A",
        "%22%20OR%201=1%20--",
        "%00",
        "%22*%22%20NEAR",
        "'%3B%20DROP%20TABLE",
        "%5B%5D%3F",
        "%25%25%25%25",
    ],
)
def test_filters_are_texts_and_nothing_else(lab: OperatorLab, text: str) -> None:
    """No text of a filter ends a line, a query or a pattern: it finds the lines that have it."""
    for field in ("grep", "host", "rule", "code", "secret", "event"):
        assert _audit(lab.client, f"?{field}={text}") == []
    assert _audit(lab.client, "?grep=%2Fdenied%2F0")[0]["path"] == "/denied/0"


# New lines ----------------------------------------------------------------------------------------


def test_new_lines_are_followed(lab: OperatorLab) -> None:
    connection = lab.client.connection()
    headers = {**lab.client.headers, "Accept": "text/event-stream"}
    with closing(connection):
        connection.request("GET", "/v1/sandboxes/agent-1/audit?verdict=deny&last=1", headers=headers)
        response = connection.getresponse()
        assert response.readline() == b": following\n"
        names: list[str] = []
        while len(names) < 3:
            line = response.readline()
            assert line, names
            if line.startswith(b"data: "):
                found = json.loads(line[6:])
                names.append(found["path"])
                assert "place" not in found
                if len(names) == 1:
                    lab.status("other", "/followed/of-other")
                    lab.status("agent-1", "/followed/1")
                    lab.status("agent-1", "/followed/2")
        assert names[1:] == ["/followed/1", "/followed/2"]


def test_the_owner_follows_the_whole_run(lab: OperatorLab) -> None:
    found = [line for _, line in lab.owner.events("GET", "log?last=500&since=1h&grep=/denied/", most=8)]
    assert {line["sandbox"] for line in found} == {"agent-1", "other"}
    assert "other-run" not in json.dumps(found)


def test_so_many_clients_follow_and_no_more(lab: OperatorLab) -> None:
    headers = {**lab.client.headers, "Accept": "text/event-stream"}
    opened = []
    try:
        for _ in range(MAX_FOLLOWERS):
            connection = lab.client.connection()
            opened.append(connection)
            connection.request("GET", "/v1/sandboxes/agent-1/audit?last=1&verdict=deny", headers=headers)
            response = connection.getresponse()
            while not response.readline().startswith(b"data: "):
                pass
        (one,) = lab.client.events("GET", "sandboxes/agent-1/audit")
        assert (one[0], one[1]["type"]) == ("problem", "log.busy")
        # The owner's server has places of its own, and questions go on.
        ((_, line),) = lab.owner.events("GET", "sandboxes/agent-1/audit?last=1&verdict=deny", most=1)
        assert line["sandbox"] == "agent-1"
        assert _audit(lab.client, "?limit=1")
    finally:
        for connection in opened:
            connection.close()


# Suggestions --------------------------------------------------------------------------------------


def test_a_suggestion_names_the_rule_that_is_missing(lab: OperatorLab) -> None:
    denied = _audit(lab.owner, "?grep=/denied/3&verdict=deny")[0]["request"]
    found = lab.owner.ask("GET", f"log/suggestion?request={denied}").body
    assert (found["code"], found["outcome"], found["is_current"]) == (
        "rule.none",
        "allow denied",
        True,
    ) or found
    assert "/denied/3" in json.dumps(found["steps"])
    allowed = _audit(lab.owner, "?verdict=allow")[0]["request"]
    assert "allowed" in lab.owner.ask("GET", f"log/suggestion?request={allowed}").body["refusal"]
    for name in ("nothing", "%22", "*", "a" * 128):
        missing = lab.owner.ask("GET", f"log/suggestion?request={name}")
        assert (missing.status, missing.body["type"]) == (404, "log.not_found")


# The handle ---------------------------------------------------------------------------------------


def test_the_handle_reads_and_follows(lab: OperatorLab) -> None:
    with lab.remote() as remote:
        audit = Sandbox.connect("agent-1", runtime=remote).audit
        page = audit.query(code="rule.none", host=NAME, grep="/denied/", limit=4)
        rest = audit.query(code="rule.none", host=NAME, grep="/denied/", cursor=page.cursor)
        assert [line["path"] for line in (*page.lines, *rest.lines)] == DENIED[::-1]
        assert rest.cursor == ""
        with pytest.raises(UsageError):
            audit.query(verdict="maybe")
        with pytest.raises(UsageError):
            audit.query(cursor="1:2")
        followed = audit.follow(verdict="deny", last=1)
        assert next(followed)["sandbox"] == "agent-1"
        asking = threading.Thread(target=lab.status, args=("agent-1", "/followed/by-handle"))
        asking.start()
        assert next(followed)["path"] == "/followed/by-handle"
        asking.join()


def test_a_task_that_follows_can_be_cancelled(lab: OperatorLab) -> None:
    async def follow() -> str:
        with lab.remote() as remote:
            sandbox = await AsyncSandbox.connect("agent-1", runtime=remote)
            lines = sandbox.audit.follow(verdict="deny", last=1)
            first = await anext(lines)
            waiting = asyncio.ensure_future(anext(lines))
            await asyncio.sleep(0.1)
            waiting.cancel()
            await asyncio.wait({waiting}, timeout=30)
            assert waiting.cancelled()
            page = await sandbox.audit.query(limit=1)
            assert len(page.lines) == 1
            return str(first["sandbox"])

    assert asyncio.run(follow()) == "agent-1"
