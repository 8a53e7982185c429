"""The rules of one sandbox over the API, with a real proxy: what they change, and what they must not."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout

import pytest

from egress import AsyncSandbox, Sandbox, SandboxNotFoundError, SpecError
from egress.api_server.policy_calls import AT_PORT, AT_SOCKET
from egress.cli.stand_in_api import NAME
from egress.fleet.errors import GrantBeyondError, GrantNotFoundError, GrantRefusedError
from egress.fleet.remote import RemoteRuntime
from scripts.pages import ROOT, blocks
from tests.api_server.operator_lab import SECRET, ApiEntrance, OperatorLab, operator_lab
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["namespaces", "refusal"]

pytestmark = pytest.mark.system("curl", "curl")
GRANTS = "sandboxes/agent-1/policy/grants"


@pytest.fixture(scope="module")
def shared(refusal: str) -> Iterator[OperatorLab | None]:
    if refusal:
        yield None
        return
    with operator_lab("agent-1", "agent-2", "other") as lab:
        yield lab


@pytest.fixture
def lab(namespaces: None, shared: OperatorLab | None) -> Iterator[OperatorLab]:
    assert shared is not None
    yield shared
    for name in ("agent-1", "agent-2", "other"):
        for grant in shared.owner.ask("GET", f"sandboxes/{name}/policy").body["grants"]:
            shared.owner.ask("DELETE", f"sandboxes/{name}/policy/grants/{grant['id']}")


def _notes(lab: OperatorLab, **others: object) -> dict[str, object]:
    made = {"kind": "allow", "ttl": 60, "host": NAME, "port": lab.upstream.port}
    return {**made, "methods": ["POST"], "paths": ["/v1/notes/**"], **others}


def _deny(lab: OperatorLab) -> dict[str, object]:
    return {"kind": "deny", "ttl": 60, "host": NAME, "port": lab.upstream.port}


def test_a_grant_of_the_port_is_in_force_until_it_is_taken_back(lab: OperatorLab) -> None:
    asked = ("agent-1", "/v1/notes/1", "-X", "POST")
    assert lab.status(*asked) == "403"
    made = lab.client.ask("POST", GRANTS, _notes(lab))
    assert (made.status, made.body["delegation"], made.body["by"]) == (201, "notes", AT_PORT)
    # The upstream wants a credential, and a grant brings none.
    assert lab.status(*asked) == "401"
    assert lab.status("agent-2", "/v1/notes/1", "-X", "POST") == "403"
    shown = lab.client.ask("GET", "sandboxes/agent-1/policy").body
    assert shown["grants"] == [made.body]
    assert {each["id"] for each in shown["delegations"]} == {"notes", "stop"}
    gone = lab.client.ask("DELETE", f"{GRANTS}/{made.body['id']}")
    assert (gone.status, gone.body) == (200, made.body)
    assert lab.status(*asked) == "403"
    assert lab.client.ask("DELETE", f"{GRANTS}/{made.body['id']}").body["type"] == "grant.not_found"


@pytest.mark.parametrize(
    "others",
    [
        {"methods": ["PUT"]},
        {"methods": None},
        {"paths": ["/v1/**"]},
        {"paths": None},
        {"host": "*.example.com"},
        {"host": "evil.example.org"},
        {"port": 443},
        {"ttl": 601},
        {"kind": "profile", "profile": "wide", "host": None, "port": None, "methods": None, "paths": None},
    ],
    ids=lambda value: str(value)[:60],
)
def test_no_client_gets_more_than_is_delegated(lab: OperatorLab, others: dict[str, object]) -> None:
    for entrance in (lab.client, lab.owner):
        answer = entrance.ask("POST", GRANTS, _notes(lab, **others))
        assert (answer.status, answer.body["type"]) == (403, "grant.not_delegated")
    assert lab.owner.ask("GET", "sandboxes/agent-1/policy").body["grants"] == []


@pytest.mark.parametrize(
    ("others", "status"),
    [
        ({"by": "the operator"}, 400),
        ({"ttl": 0}, 400),
        ({"ttl": "1h"}, 400),
        ({"port": 65536}, 400),
        ({"secret": "tracker"}, 400),
        ({"methods": ["POST"] * 17}, 400),
        ({"profile": "a" * 5000}, 400),
        ({"host": "a b"}, 422),
        ({"host": "x: {allow: all}\nevil.example.org"}, 422),
        ({"paths": ["/v1/notes/**\n"]}, 422),
        ({"host": None}, 422),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_no_grant_is_refused(lab: OperatorLab, others: dict[str, object], status: int) -> None:
    answer = lab.client.ask("POST", GRANTS, _notes(lab, **others))
    assert (answer.status, answer.body["type"]) == (
        status,
        "request.invalid" if status == 400 else "spec.invalid",
    )


def test_a_client_of_the_port_does_not_take_back_what_its_operator_denied(lab: OperatorLab) -> None:
    made = lab.egress("policy", "agent-1", "--deny", lab.url, "--json")
    of_command = json.loads(made.out)["id"]
    of_socket = lab.owner.ask("POST", GRANTS, _deny(lab)).body
    assert of_socket["by"] == AT_SOCKET
    assert lab.status("agent-1", "/v1/user") == "403"
    for grant in (of_command, of_socket["id"]):
        answer = lab.client.ask("DELETE", f"{GRANTS}/{grant}")
        assert (answer.status, answer.body["type"]) == (409, "grant.refused")
    assert lab.status("agent-1", "/v1/user") == "403"
    # The operator takes back what any of them made.
    of_port = lab.client.ask("POST", GRANTS, _deny(lab)).body["id"]
    for grant in (of_command, of_socket["id"], of_port):
        assert lab.owner.ask("DELETE", f"{GRANTS}/{grant}").status == 200
    assert lab.status("agent-1", "/v1/user") == "200"


def test_a_client_cannot_lift_a_deny_nor_open_a_host_that_a_profile_leaves_out(lab: OperatorLab) -> None:
    answer = lab.client.ask("POST", GRANTS, _notes(lab, kind="deny", paths=["/v1/keys"]))
    assert answer.status == 201, answer.body
    assert lab.status("agent-1", "/v1/keys") == "403"
    chosen = {"kind": "profile", "ttl": 60, "profile": "wide"}
    assert lab.client.ask("POST", "sandboxes/agent-2/policy/grants", chosen).status == 201
    again = lab.client.ask("POST", "sandboxes/agent-2/policy/grants", chosen)
    assert (again.status, again.body["type"]) == (409, "grant.refused")
    assert lab.client.ask("GET", "sandboxes/agent-2/policy").body["profile_in_force"] == "wide"


@pytest.mark.parametrize("name", ["nobody", "egress-embedded", "..", "agent-1/policy", "AGENT-1"])
def test_a_name_that_no_sandbox_of_the_fleet_has_is_not_found(lab: OperatorLab, name: str) -> None:
    place = f"sandboxes/{name.replace('/', '%2F')}/policy"
    for method, target, body in (
        ("GET", place, None),
        ("POST", f"{place}/grants", _notes(lab)),
        ("POST", f"{place}/explain", {"url": lab.url}),
    ):
        assert lab.client.ask(method, target, body).status == 404, target


def test_each_change_is_recorded_with_its_caller(lab: OperatorLab) -> None:
    made = lab.client.ask("POST", GRANTS, _notes(lab)).body["id"]
    lab.client.ask("DELETE", f"{GRANTS}/{made}")
    lab.client.ask("POST", GRANTS, _notes(lab, ttl=601))
    lines = lab.egress("log", "query", "--sandbox", "agent-1", "--json", "-n", "1000").out.splitlines()
    found = [(each["event"], each.get("grant"), each.get("by")) for each in map(json.loads, lines)]
    assert ("granted", made, AT_PORT) in found
    assert ("grant.revoked", made, AT_PORT) in found
    assert ("grant.refused", None, AT_PORT) in found


def test_only_the_operator_is_told_which_rule_closes_a_host(lab: OperatorLab) -> None:
    asked = {"kind": "allow", "ttl": 60, "host": "closed.example.com"}
    seen, hidden = (
        entrance.ask("POST", "sandboxes/other/policy/grants", asked) for entrance in (lab.owner, lab.client)
    )
    assert seen.body["type"] == hidden.body["type"] == "grant.refused"
    assert seen.body["message"] == hidden.body["message"]
    assert "hosts.yaml" in seen.body["hint"]
    assert "hosts.yaml" not in json.dumps(hidden.body)


# Explanations -------------------------------------------------------------------------------------


def _explained(entrance: ApiEntrance, lab: OperatorLab, path: str, **others: object) -> dict[str, object]:
    answer = entrance.ask("POST", "sandboxes/agent-1/policy/explain", {"url": f"{lab.url}{path}", **others})
    assert answer.status == 200, answer.body
    found: dict[str, object] = answer.body
    return found


def test_an_explanation_is_what_happens(lab: OperatorLab) -> None:
    for path, status in (("/v1/user", "200"), ("/v1/keys", "403"), ("/v1/../x", "400"), ("/other", "403")):
        found = _explained(lab.client, lab, path)
        assert (found["verdict"] == "allow") == (status == "200"), path
        assert lab.status("agent-1", path, "--path-as-is") == status, path
    assert _explained(lab.client, lab, "/v1/user")["inject"] == ["tracker"]
    assert _explained(lab.client, lab, "/v1/notes/1", method="POST")["code"] == "rule.none"
    lab.client.ask("POST", GRANTS, _notes(lab))
    granted = _explained(lab.client, lab, "/v1/notes/1", method="POST")
    assert (granted["verdict"], granted["delegation"], granted["inject"]) == ("allow", "notes", [])


def test_only_the_operator_sees_where_rules_stand(lab: OperatorLab) -> None:
    seen, hidden = (_explained(each, lab, "/v1/keys") for each in (lab.owner, lab.client))
    assert "hosts.yaml" in json.dumps(seen)
    assert seen["considered"]
    assert "hosts.yaml" not in json.dumps(hidden)
    assert hidden == {**seen, "place": None, "considered": []}
    for found in (seen, hidden):
        assert SECRET not in json.dumps(found)
        assert "TRACKER_TOKEN" not in json.dumps(found)


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "no url at all"},
        {"url": "https://a.example.com/", "headers": {"Host": "b.example.com"}},
        {"url": "https://a.example.com/", "headers": {"X": "a\r\nAuthorization: b"}},
        {"url": "https://a.example.com:0/"},
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_request_that_no_client_can_send_is_not_explained(lab: OperatorLab, wrong: object) -> None:
    answer = lab.client.ask("POST", "sandboxes/agent-1/policy/explain", wrong)
    assert (answer.status, answer.body["type"]) == (422, "spec.invalid")


# The handle ---------------------------------------------------------------------------------------


def test_the_handle_changes_the_rules_of_its_sandbox(lab: OperatorLab) -> None:
    with lab.remote() as remote:
        policy = Sandbox.connect("agent-1", runtime=remote).policy
        grant = policy.allow(f"POST {lab.url}/v1/notes/**", ttl=60)
        assert [each.id for each in policy.show().grants] == [grant.id]
        assert policy.explain("POST", f"{lab.url}/v1/notes/1").delegation == "notes"
        assert policy.undo(grant.id) == grant
        with pytest.raises(GrantNotFoundError):
            policy.undo(grant.id)
        with pytest.raises(GrantBeyondError, match="do not delegate"):
            policy.allow(lab.url)
        with pytest.raises(SpecError):
            policy.explain("GET", "no url at all")
        policy.deny(lab.url, ttl=60)
        assert policy.explain("GET", f"{lab.url}/v1/user").verdict == "deny"
        Sandbox.connect("agent-2", runtime=remote).policy.choose_profile("wide", ttl=60)
        with pytest.raises(GrantRefusedError):
            Sandbox.connect("agent-2", runtime=remote).policy.choose_profile("wide", ttl=60)
        with pytest.raises(SandboxNotFoundError):
            Sandbox(remote, "nobody").policy.show()


def test_the_awaited_handle_does_the_same(lab: OperatorLab) -> None:
    async def change() -> str:
        with lab.remote() as remote:
            sandbox = await AsyncSandbox.connect("agent-1", runtime=remote)
            grant = await sandbox.policy.deny(lab.url, ttl=60)
            found = await sandbox.policy.explain("GET", f"{lab.url}/v1/user")
            await sandbox.policy.undo(grant.id)
            assert (await sandbox.policy.show()).grants == ()
            return found.rule or ""

    assert asyncio.run(change()).startswith("grant#g-")


def test_the_example_of_the_guide_runs(lab: OperatorLab) -> None:
    (block,) = [block for block in blocks(ROOT / "docs/guides/sandbox.md") if block.words == ("proxy",)]
    shown = io.StringIO()
    with lab.remote() as remote, redirect_stdout(shown):
        exec(compile(block.text, block.place, "exec"), {"sandbox": Sandbox.connect("other", runtime=remote)})
    assert shown.getvalue() == "ask for less, or have the operator widen `delegate:`\nhost.unknown\n[]\n"


def test_handlers_are_chosen_by_the_operator_alone(lab: OperatorLab) -> None:
    with RemoteRuntime(lab.folder / "run" / "sandboxes.sock") as remote:
        policy = Sandbox.connect("agent-1", runtime=remote).policy
        assert policy.handlers().loaded == ("block", "teapot")
        assert lab.status("agent-1", "/v1/user") == "200"
        policy.set_outbound_handler("block")
        assert lab.status("agent-1", "/v1/user") == "403"
        policy.set_outbound_by_host(NAME, "teapot", {"status": 418})
        assert lab.status("agent-1", "/v1/user") == "418"
        # The rules come first, and other sandboxes have handlers of their own.
        assert lab.status("agent-1", "/v1/keys") == "403"
        assert lab.status("agent-2", "/v1/user") == "200"
        policy.set_outbound_by_hosts({NAME: ("teapot", {"status": 201}), "*.example.org": "block"})
        assert lab.status("agent-1", "/v1/user") == "201"
        assert sorted(policy.handlers().by_host) == sorted([NAME, "*.example.org"])
        with pytest.raises(GrantRefusedError, match="no handler 'blocks' is loaded"):
            policy.set_outbound_handler("blocks")
        policy.remove_outbound_by_host(NAME)
        assert lab.status("agent-1", "/v1/user") == "403"
        policy.set_outbound_handler(None)
        assert lab.status("agent-1", "/v1/user") == "200"
        policy.set_outbound_by_hosts({})
    refused = lab.client.ask("POST", "sandboxes/agent-1/handlers", {"catch_all": {"use": "block"}})
    assert (refused.status, refused.body["type"]) == (403, "grant.not_delegated")
    assert lab.client.ask("GET", "sandboxes/agent-1/handlers").body["catch_all"] is None
    lines = lab.egress("log", "query", "--event", "handlers.chosen", "--json").out
    assert f"{NAME}: teapot, all others: block" in lines
