"""Rights of one run, with a real sandbox and a real proxy: they begin with it and end with it."""

from __future__ import annotations

import io
import json
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout

import pytest

from egress import Sandbox
from egress.fleet.errors import GrantBeyondError, GrantRefusedError
from egress.fleet.remote import RemoteRuntime
from scripts.pages import ROOT, blocks
from tests.api_server.operator_lab import OperatorLab, operator_lab
from tests.proxy.serve_process import until
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
    with operator_lab("one", "two", "agent-2") as lab:
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
    with pytest.raises(GrantRefusedError, match="no profile `admin`"):
        box.exec("touch /workspace/began", profile="admin")
    assert box.exec("ls").text == ""


def spawn_run(box: Sandbox, profile: str | None = None) -> str:
    return box.spawn(ASK, profile=profile).wait(60).text


def pty_run(box: Sandbox, profile: str | None = None) -> str:
    with box.pty(ASK, profile=profile) as terminal:
        said = b"".join(terminal.read()).decode()
        terminal.wait(60)
    return said


def process_run(box: Sandbox, profile: str | None = None) -> str:
    process = box.start_process(ASK, profile=profile)
    process.wait(60)
    return process.read().data.decode()


def terminal_run(box: Sandbox, profile: str | None = None) -> str:
    process = box.start_terminal(ASK, profile=profile)
    process.wait(60)
    return process.read().data.decode()


def session_run(box: Sandbox, profile: str | None = None) -> str:
    with box.session(profile=profile) as session:
        said = session.exec(shlex.join(ASK)).text
        # The shell goes on, and so do its rights.
        assert session.exec(shlex.join(ASK)).text == said
    return said


@pytest.mark.parametrize("act", [spawn_run, pty_run, process_run, terminal_run, session_run])
def test_every_kind_of_run_has_rights_of_its_own_until_it_ends(
    lab: OperatorLab, box: Sandbox, act: Callable[..., str]
) -> None:
    before = len(recorded(lab, "ticket.added"))
    assert act(box) == DENIED
    assert len(recorded(lab, "ticket.added")) == before
    assert act(box, profile="wide") not in (DENIED, "000")
    [added] = recorded(lab, "ticket.added")[before:]
    ended = until(
        lambda: [line for line in recorded(lab, "ticket.ended") if line["ticket"] == added["ticket"]]
    )
    assert [line["reason"] for line in ended] == ["revoked"]
    assert act(box) == DENIED


def test_the_command_line_gives_one_command_a_profile(lab: OperatorLab) -> None:
    for words, is_denied in (((), True), (("--profile", "wide"), False), ((), True)):
        done = lab.egress("exec", *words, "one", "--", *ASK)
        assert (done.out == DENIED) is is_denied, done
    refused = lab.egress("exec", "--profile", "admin", "one", "--", "touch", "/workspace/began")
    assert "the rules have no profile `admin`" in refused.err
    refused = lab.egress("exec", "--param", "repo", "one", "--", "true")
    assert "--param needs NAME=VALUE" in refused.err
    detached = lab.egress("exec", "-d", "--profile", "wide", "one", "--", *ASK).out.strip()
    with lab.remote() as remote:
        found = Sandbox.connect("one", runtime=remote).process(detached)
        assert found.wait(60).exit_code is not None
        assert found.read().data.decode() not in (DENIED, "000")


def test_a_client_of_the_port_gives_runs_what_is_delegated(lab: OperatorLab) -> None:
    """The profile `wide` is delegated to agent-2 for an hour, and to no other sandbox."""
    asked = {"argv": ASK, "profile": "wide"}
    paths = ("exec", "processes", "tickets")
    for path in paths:
        body = asked if path != "tickets" else {"profile": "wide"}
        refused = lab.client.ask("POST", f"sandboxes/one/{path}", body)
        assert (refused.status, refused.body["type"]) == (403, "grant.not_delegated"), path
        beyond = lab.client.ask("POST", f"sandboxes/agent-2/{path}", {**body, "profile": "default"})
        assert beyond.status == 403, path
    session = lab.client.ask("PUT", "sandboxes/one/sessions/s", {"profile": "wide"})
    assert session.status == 200
    refused = lab.client.ask("POST", "sandboxes/one/sessions/s/exec", {"command": "true"})
    assert refused.status == 403
    with lab.remote() as remote, pytest.raises(GrantBeyondError):
        Sandbox.connect("one", runtime=remote).spawn(ASK, profile="wide")
    # The twin: what is delegated holds, for an hour at most.
    allowed = lab.client.ask("POST", "sandboxes/agent-2/exec", asked)
    assert allowed.body["stdout"] not in (DENIED, "000")
    with lab.remote() as remote:
        said = Sandbox.connect("agent-2", runtime=remote).spawn(ASK, profile="wide").wait(60).text
    assert said not in (DENIED, "000")
    made = lab.client.ask("POST", "sandboxes/agent-2/tickets", {"profile": "wide", "ttl": 86400})
    assert made.status == 201
    left = made.body["expires"] - time.time()  # noqa: TID251 - the proxy has the time of the machine
    assert 3500 < left <= 3600
    assert recorded(lab, "ticket.added")[-1]["by"] == "the API at the port"
    # It revokes its own, and no ticket of the operator.
    own = lab.owner.ask("POST", "sandboxes/agent-2/tickets", {"profile": "wide"}).body["id"]
    ended = len(recorded(lab, "ticket.ended"))
    lab.client.ask("DELETE", f"sandboxes/agent-2/tickets/{own}")
    assert len(recorded(lab, "ticket.ended")) == ended
    lab.client.ask("DELETE", f"sandboxes/agent-2/tickets/{made.body['id']}")
    assert recorded(lab, "ticket.ended")[-1]["ticket"] == made.body["id"]
    lab.owner.ask("DELETE", f"sandboxes/agent-2/tickets/{own}")


def test_a_ticket_needs_a_sandbox_and_a_time(lab: OperatorLab) -> None:
    assert lab.owner.ask("POST", "sandboxes/nobody/tickets", {}).status == 404
    assert lab.owner.ask("POST", TICKETS, {"ttl": 0}).status == 400


def test_the_example_of_the_guide_runs(box: Sandbox) -> None:
    (block,) = [block for block in blocks(ROOT / "docs/guides/tickets.md") if block.words == ("ticket",)]
    shown = io.StringIO()
    with redirect_stdout(shown):
        exec(compile(block.text, block.place, "exec"), {"sandbox": box})
    assert shown.getvalue() == "403\nTrue\n403\n"
