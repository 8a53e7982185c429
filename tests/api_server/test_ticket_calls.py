"""Rights of one run, with a real sandbox and a real proxy: they begin with it and end with it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout

import pytest

from egress import Sandbox
from egress.fleet.errors import GrantRefusedError
from egress.fleet.remote import RemoteRuntime
from scripts.pages import ROOT, blocks
from tests.api_server.operator_lab import OperatorLab, operator_lab
from tests.runtime.namespace.conftest import namespaces, refusal

__all__ = ["namespaces", "refusal"]

pytestmark = pytest.mark.system("curl", "curl")
TICKETS = "sandboxes/one/tickets"
ASK = ["curl", "-s", "-m", "30", "-o", "/dev/null", "-w", "%{http_code}", "https://private.example.com/"]
DENIED = "403"


@pytest.fixture(scope="module")
def shared(refusal: str) -> Iterator[OperatorLab | None]:
    if refusal:
        yield None
        return
    with operator_lab("one", "two") as lab:
        yield lab


@pytest.fixture
def lab(namespaces: None, shared: OperatorLab | None) -> OperatorLab:
    assert shared is not None
    return shared


@pytest.fixture
def box(lab: OperatorLab) -> Iterator[Sandbox]:
    with RemoteRuntime(lab.folder / "run" / "sandboxes.sock") as fleet:
        yield Sandbox.connect("one", runtime=fleet)


def recorded(lab: OperatorLab, kind: str) -> list[dict[str, object]]:
    lab.egress("status")
    files = (lab.folder / "state").rglob("*.jsonl")
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def test_a_profile_is_that_of_one_command(lab: OperatorLab, box: Sandbox) -> None:
    before = len(recorded(lab, "ticket.added"))
    assert box.exec(ASK).text == DENIED
    # No name server knows the host: the request is allowed, and fails later.
    assert box.exec(ASK, profile="wide").text not in (DENIED, "000")
    assert box.exec(ASK).text == DENIED
    [added] = recorded(lab, "ticket.added")[before:]
    of_run = [line for line in recorded(lab, "exchange") if line.get("ticket") == added["ticket"]]
    assert [(line["sandbox"], line["profile"]) for line in of_run] == [("one", "wide")]
    ended = recorded(lab, "ticket.ended")[-1]
    assert (ended["ticket"], ended["reason"]) == (added["ticket"], "revoked")


def test_a_ticket_that_outlives_its_command_holds_no_more(lab: OperatorLab, box: Sandbox) -> None:
    kept = box.exec("echo $HTTPS_PROXY", profile="wide").text.strip()
    assert "egress-run-" in kept
    assert box.exec(ASK, env={"HTTPS_PROXY": kept, "https_proxy": kept}).text in (DENIED, "000")
    assert "egress-run-" not in box.exec("env", env={}).text


def test_a_ticket_of_one_sandbox_is_worth_nothing_in_another(lab: OperatorLab, box: Sandbox) -> None:
    made = lab.owner.ask("POST", TICKETS, {"profile": "wide", "ttl": 60})
    assert made.status == 201, made.body
    proxy = box.exec("echo $HTTPS_PROXY").text.strip()
    shown = proxy.replace("http://", f"http://{made.body['ticket']}@")
    codes = []
    for name in ("one", "two"):
        env = {"HTTPS_PROXY": shown, "https_proxy": shown}
        asked = lab.owner.ask("POST", f"sandboxes/{name}/exec", {"argv": ASK, "env": env})
        codes.append(asked.body["stdout"])
    assert codes[0] not in (DENIED, "000")
    assert codes[1] in (DENIED, "000")
    assert [line["sandbox"] for line in recorded(lab, "refusal") if line["code"] == "ticket.foreign"] == [
        "two"
    ]
    assert lab.owner.ask("DELETE", f"{TICKETS}/{made.body['id']}").status == 200


def test_a_profile_that_does_not_exist_begins_no_command(box: Sandbox) -> None:
    with pytest.raises(GrantRefusedError, match="no such profile"):
        box.exec("touch /workspace/began", profile="admin")
    assert box.exec("ls").text == ""


def test_a_client_of_the_port_makes_no_tickets(lab: OperatorLab) -> None:
    """What a client of the port may do stays within `delegate:`, and a ticket asks nobody."""
    assert lab.client.ask("POST", TICKETS, {"profile": "wide"}).status == 404
    assert lab.owner.ask("POST", "sandboxes/nobody/tickets", {}).status == 404
    assert lab.owner.ask("POST", TICKETS, {"ttl": 0}).status == 400


def test_the_example_of_the_guide_runs(box: Sandbox) -> None:
    (block,) = [block for block in blocks(ROOT / "docs/guides/tickets.md") if block.words == ("ticket",)]
    shown = io.StringIO()
    with redirect_stdout(shown):
        exec(compile(block.text, block.place, "exec"), {"sandbox": box})
    assert shown.getvalue() == "403\nTrue\n403\n"
