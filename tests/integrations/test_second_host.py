"""Programs of other languages and SDKs on a second host, which come back to their sandboxes after a restart.

Those of Python and curl are in tests/cli/sandboxes/test_up_second_host.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.sandboxes.test_up_kept import NAME, SECRET
from tests.cli.sandboxes.test_up_second_host import PAGE, Remote, remote
from tests.integrations.packages import Workshop, newer_node
from tests.integrations.test_flue import project
from tests.peers.fetched import PEERS, PROGRAMS, python
from tests.proxy.serve_process import until

__all__ = ["project", "remote"]

pytestmark = [pytest.mark.system("npm", "npm"), pytest.mark.timeout(600)]

type Visit = Callable[[str], str]
"""Does an act, `create` or `come back`, and returns what was printed."""


def come_back(remote: Remote, visit: Visit) -> list[str]:
    """Play both acts with a restart between them, and return what they printed."""
    remote.up()
    said = [visit("create")]
    remote.kept.kill()
    remote.up()
    said.append(visit("come back"))
    assert SECRET not in "".join(said)
    seen = remote.kept.api.seen
    assert {each.authorization for each in seen} == {f"Bearer {SECRET}"}
    # A line is written after its answer has left.
    logged = until(lambda: found if len(found := remote.logged()) >= len(seen) else [], "their lines")
    assert [each["verdict"] for each in logged] == ["allow"] * len(seen)
    return said


def port(remote: Remote) -> dict[str, str]:
    """What a program in TypeScript is told of the port."""
    authority = (remote.client / "ca.pem").read_text()
    return {"URL": remote.url, "TOKEN": remote.token, "CA": authority, "HOME": str(remote.client)}


def test_typescript(remote: Remote, workshop: Workshop, node: Path) -> None:
    program = str(workshop.folder / "built/second_host.js")
    said = come_back(
        remote,
        lambda act: remote.done(str(node), program, env={**port(remote), "FETCH": remote.fetch, "ACT": act}),
    )
    assert all(each.startswith(f"first\nby TypeScript{PAGE}") for each in said)


@pytest.mark.nightly
def test_flue(remote: Remote, project: Workshop) -> None:
    program = str(project.folder / "built/agent.js")
    origin = f"https://{NAME}:{remote.kept.api.port}"
    env = {"API": origin, "SECRET_PATTERN": SECRET.replace("sesame", "[s]esame")}
    said = come_back(remote, lambda _: remote.done(str(newer_node()), program, env={**port(remote), **env}))
    assert [json.loads(each.splitlines()[-1])[0] for each in said] == [PAGE.strip()] * 2
    # The same instance id is the same sandbox.
    assert [each["name"].partition("-")[0] for each in json.loads(remote.curl("sandboxes"))["sandboxes"]] == [
        "flue"
    ]


def test_openai_agents(remote: Remote, request: pytest.FixtureRequest) -> None:
    PEERS.require(request)
    words = (str(python()), "-P", str(PROGRAMS / "bridge_checks.py"), remote.url)
    state = remote.client / "session.json"

    def visit(act: str) -> str:
        env = {
            "CLOUDFLARE_SANDBOX_API_KEY": remote.token,
            "SSL_CERT_FILE": str(remote.client / "ca.pem"),
            "HOME": str(remote.client),
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "FETCH": remote.fetch,
        }
        if act == "create":
            return remote.done(*words, "kept_session", env=env)
        return remote.done(*words, "resume", env=env, given=state.read_text("utf-8"))

    # The first act prints its failures, the second one what its commands do.
    assert come_back(remote, visit) == ["{}\n", f"{PAGE}before\n"]
