"""Drives agent-sandbox's client, unchanged: it is told two addresses and a token, as a cluster's would be.

python agent_sandbox_checks.py URL NAME...     runs these checks, and prints the failures as JSON, by name
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import kubernetes.client
import kubernetes_asyncio.client
from k8s_agent_sandbox import AsyncSandboxClient, SandboxClient
from k8s_agent_sandbox.exceptions import (
    SandboxClaimFailedError,
    SandboxNotFoundError,
    SandboxRequestError,
    SandboxWarmPoolNotFoundError,
)
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig
from k8s_agent_sandbox.sandbox import Sandbox

URL = sys.argv[1]
BEARER = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
REPOSITORY = os.environ.get("REPOSITORY", "")
DIRECT = SandboxDirectConnectionConfig(api_url=URL, extra_headers=BEARER)
CLONE = f"git clone -q {REPOSITORY} repository && cat repository/README"
PUSH = """\
cd repository && git config user.name a && git config user.email a@example.com
git commit -q --allow-empty -m more && git push"""
HELD = "env; cat /proc/self/environ ~/.git-credentials ~/.netrc repository/.git/config 2>&1"


def cluster(token: str = BEARER["Authorization"]) -> kubernetes.client.ApiClient:
    configuration = kubernetes.client.Configuration(host=URL)
    configuration.retries = False
    return kubernetes.client.ApiClient(configuration, "Authorization", token)


def client(**more: object) -> SandboxClient:
    return SandboxClient(connection_config=DIRECT, api_client=cluster(), **more)


@contextmanager
def sandbox(**more: object) -> Iterator[Sandbox]:
    made = client().create_sandbox("python", **more)
    try:
        yield made
    finally:
        made.terminate()


@contextmanager
def refused(kind: type[Exception], *told: str) -> Iterator[None]:
    try:
        yield
    except kind as error:
        missing = [each for each in told if each not in f"{error} {getattr(error, 'body', '')}"]
        assert not missing, (missing, error)
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def commands() -> None:
    with sandbox() as box:
        result = box.commands.run("pwd; echo careful >&2; exit 3")
        assert (result.stdout, result.stderr, result.exit_code) == ("/workspace\n", "careful\n", 3)
        assert box.commands.run("echo $((6 * 7)) | rev").stdout == "24\n"
        late = box.commands.run("echo begun; sleep 60", command_timeout=1)
        assert (late.stdout, late.exit_code, late.timed_out) == ("begun\n", 124, True)
        began = time.monotonic()
        with refused(SandboxRequestError):
            box.commands.run("sleep 60", timeout=1)
        assert time.monotonic() - began < 30


def files() -> None:
    content = os.urandom(1_000_000)
    with sandbox() as box:
        box.files.write("notes/today.bin", content)
        assert box.files.read("notes/today.bin") == content
        target = io.BytesIO()
        assert box.files.read_to("notes/today.bin", target) == len(content)
        assert target.getvalue() == content
        box.files.write("notes/streamed", io.BytesIO(b"from a file"))
        assert box.commands.run("cat notes/streamed").stdout == "from a file"
        box.files.write("notes/empty", b"")
        box.files.write("/notes/grün 50%.txt", "text")
        found = {entry.name: entry for entry in box.files.list("notes")}
        assert sorted(found) == ["empty", "grün 50%.txt", "streamed", "today.bin"]
        assert (found["today.bin"].size, found["today.bin"].type) == (1_000_000, "file")
        assert abs((datetime.now(UTC) - found["today.bin"].modified).total_seconds()) < 300
        assert [(entry.name, entry.type) for entry in box.files.list(".")] == [("notes", "directory")]
        assert box.files.list("/notes") == box.files.list("notes")
        assert box.files.exists("notes/grün 50%.txt")
        assert not box.files.exists("notes/none")
        with refused(SandboxRequestError):
            box.files.read("notes/none")
        for call in (box.files.list, box.files.exists):
            with refused(SandboxRequestError):
                call("../etc")
        with refused(SandboxRequestError):
            box.files.read("../../etc/hostname", allow_unsafe_paths=True)
        with refused(SandboxRequestError):
            box.files.write("../../tmp/planted", b"", allow_unsafe_paths=True)


def life_of_a_claim() -> None:
    own = client()
    box = own.create_sandbox("python", labels={"team": "a"}, claim_name="mine", shutdown_after_seconds=600)
    assert box.status()[0] == "SandboxReady"
    assert own.list_all_sandboxes(label_selector="team=a") == ["mine"]
    assert own.list_all_sandboxes(label_selector="team!=a") == []
    assert own.get_sandbox_claim_warmpool_name("mine", "default") == "python"
    again = client().get_sandbox("mine")
    assert again.commands.run("echo here").stdout == "here\n"
    with refused(kubernetes.client.ApiException, "(409)", "AlreadyExists"):
        client().create_sandbox("python", claim_name="mine")
    adopted = client().create_sandbox("python", claim_name="mine", adopt_existing=True)
    assert adopted.sandbox_id == box.sandbox_id
    box.terminate()
    box.terminate()
    assert own.list_all_sandboxes() == []
    with refused(SandboxRequestError):
        again.commands.run("echo here")
    with refused(SandboxNotFoundError):
        client().get_sandbox("mine", resolve_timeout=1)
    with client() as tidy:
        tidy.create_sandbox("python")
        assert len(own.list_all_sandboxes()) == 1
    assert own.list_all_sandboxes() == []


def namespaces() -> None:
    with sandbox(namespace="team-a") as box:
        assert client().list_all_sandboxes("team-a") != client().list_all_sandboxes() == []
        stranger = Sandbox("mine", box.sandbox_id, "team-b", DIRECT, k8s_helper=client().k8s_helper)
        with refused(SandboxRequestError):
            stranger.commands.run("echo reached")
        assert box.commands.run("echo reached").stdout == "reached\n"


def wishes_that_are_not_met() -> None:
    own = client()
    with refused(SandboxWarmPoolNotFoundError, "--api-pools"):
        own.create_sandbox("other")
    with refused(SandboxClaimFailedError, "EnvVarsInjectionRejected"):
        own.create_sandbox("python", env={"A": "b"})
    with refused(SandboxClaimFailedError, "VolumeClaimTemplatesError"):
        own.create_sandbox("python", volume_claim_templates=[{"metadata": {"name": "data"}}])
    with refused(SandboxClaimFailedError, "InvalidMetadata", "profile"):
        own.create_sandbox("python", pod_annotations={"egress/profile": "admin"})
    # The rules of this server declare no parameter.
    with refused(SandboxClaimFailedError, "the rules declare no parameter REPO"):
        own.create_sandbox("python", pod_annotations={"egress/param.REPO": "a/b"})
    # The client takes back what it could not use.
    assert own.list_all_sandboxes() == []


def wrong_token() -> None:
    with sandbox() as box:
        other = SandboxDirectConnectionConfig(api_url=URL, extra_headers={"Authorization": "Bearer wrong"})
        stranger = Sandbox("mine", box.sandbox_id, "default", other, k8s_helper=client().k8s_helper)
        with refused(SandboxRequestError):
            stranger.commands.run("echo reached")
        outside = SandboxClient(connection_config=DIRECT, api_client=cluster("Bearer wrong"))
        with refused(kubernetes.client.ApiException, "(401)"):
            outside.create_sandbox("python")
        assert box.commands.run("echo reached").stdout == "reached\n"


def repository() -> None:
    with sandbox() as box:
        assert box.commands.run(CLONE).stdout == "hello\n"
        push = box.commands.run(PUSH)
        assert push.exit_code != 0
        assert "403" in push.stderr, push
        held = box.commands.run(HELD)
        assert "repository" in held.stdout
        assert os.environ["SECRET"] not in held.stdout + held.stderr


def async_twin() -> None:
    asyncio.run(_async_twin())


async def _async_twin() -> None:
    configuration = kubernetes_asyncio.client.Configuration(host=URL)
    async with kubernetes_asyncio.client.ApiClient(configuration) as api:
        api.set_default_header("Authorization", BEARER["Authorization"])
        async with AsyncSandboxClient(connection_config=DIRECT, api_client=api) as own:
            boxes = await asyncio.gather(
                *(own.create_sandbox("python", labels={"n": str(n)}) for n in range(2))
            )
            for box in boxes:
                await box.files.write("notes/today", b"remember\n")
                assert (await box.commands.run("cat notes/today")).stdout == "remember\n"
                assert await box.files.read("notes/today") == b"remember\n"
                assert [entry.name for entry in await box.files.list("notes")] == ["today"]
                assert await box.files.exists("notes/today")
                assert (await box.commands.run("sleep 60", command_timeout=1)).timed_out
            assert len(await own.list_all_sandboxes(label_selector="n in (0, 1)")) == 2
            if REPOSITORY:
                assert (await boxes[0].commands.run(CLONE)).stdout == "hello\n"
            for box in boxes:
                await box.terminate()
            assert await own.list_all_sandboxes() == []


CHECKS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        commands,
        files,
        life_of_a_claim,
        namespaces,
        wishes_that_are_not_met,
        wrong_token,
        repository,
        async_twin,
    )
}


if __name__ == "__main__":
    failures: dict[str, str] = {}
    for name in sys.argv[2:]:
        try:
            CHECKS[name]()
        except Exception:  # noqa: BLE001
            failures[name] = traceback.format_exc()
    print(json.dumps(failures))
