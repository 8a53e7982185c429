"""Drives the sandbox client of the OpenAI Agents SDK, unchanged: only a URL and a key are set.

python bridge_checks.py URL NAME...     runs these checks, and prints the failures as JSON, by name
python bridge_checks.py URL resume      goes on with the state that comes in, and runs what FETCH says
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

from agents.extensions.sandbox.cloudflare import CloudflareSandboxClient, CloudflareSandboxClientOptions
from agents.sandbox import LocalSnapshotSpec, Manifest
from agents.sandbox.entries import File
from agents.sandbox.errors import (
    ExecTransportError,
    MountConfigError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.manifest import Environment
from agents.sandbox.session import SandboxSession

CLIENT = CloudflareSandboxClient()
URL = sys.argv[1]


async def opened(url: str = URL, **more: object) -> SandboxSession:
    session = await CLIENT.create(options=CloudflareSandboxClientOptions(worker_url=url), **more)
    await session.start()
    return session


async def closed(session: SandboxSession) -> None:
    await session.aclose()
    await CLIENT.delete(session)


async def said(session: SandboxSession, line: str, **more: object) -> str:
    result = await session.exec(line, **more)
    assert result.exit_code == 0, result
    return str(result.stdout, "utf-8")


async def read(session: SandboxSession, path: str) -> bytes:
    return bytes((await session.read(path)).read())


# Checks that share a session --------------------------------------------------------------------------


async def commands(session: SandboxSession) -> None:
    result = await session.exec("pwd; echo careful >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == (b"/workspace\n", b"careful\n", 3)
    result = await session.exec("printf", r"\000\377%s", "a b", shell=False)
    assert result.stdout == b"\0\xffa b"
    # Commands have no input of the client's, and do not wait for any.
    assert (await session.exec("cat", shell=False, timeout=10)).exit_code == 0


async def large_output(session: SandboxSession) -> None:
    result = await session.exec("head -c 3000000 /dev/zero; head -c 1000000 /dev/zero >&2", timeout=60)
    assert (len(result.stdout), len(result.stderr)) == (3_000_000, 1_000_000)


async def timeout(session: SandboxSession) -> None:
    """A command that ignores SIGTERM is answered before the client gives up, with what it has said."""
    began = time.monotonic()
    result = await session.exec("trap '' TERM; echo begun; while :; do sleep 1; done", timeout=0.5)
    assert (result.exit_code, result.stdout) == (124, b"begun\n"), result
    assert time.monotonic() - began < 5.5


async def files(session: SandboxSession) -> None:
    content = bytes(range(256)) * 5000
    await session.write("deep/er/a b%2F?#ü.bin", io.BytesIO(content))
    assert await read(session, "deep/er/a b%2F?#ü.bin") == content
    await session.write("deep/empty", io.BytesIO(b""))
    assert await read(session, "deep/empty") == b""
    assert {Path(each.path).name for each in await session.ls("deep")} == {"er", "empty"}
    await session.mkdir("deep/new/one", parents=True)
    await session.mv("deep/empty", "deep/new/one/moved")
    assert await said(session, "ls deep/new/one") == "moved\n"
    await session.rm("deep", recursive=True)
    try:
        await session.read("deep/new/one/moved")
    except WorkspaceReadNotFoundError:
        return
    raise AssertionError("a file that was removed could be read")


async def event_like_files(session: SandboxSession) -> None:
    """The client takes such content for events, unless the server sends it as events."""
    for content in (
        b'data: {"type":"metadata"}\n\ndata: {"type":"chunk","data":"x"}\n\n',
        b'data: {"x":1}\n\ndata: [1]\n\n',
        b'data: {"type":"metadata","isBinary":true}\n\ndata: {"type":"complete"}\n\n' + b"\xff" * 300_000,
    ):
        await session.write("events.txt", io.BytesIO(content))
        assert await read(session, "events.txt") == content


async def escapes(session: SandboxSession) -> None:
    await said(session, "ln -s /etc/hostname outside")
    for path in ("../etc/hostname", "/etc/hostname", "outside"):
        try:
            await session.read(path)
        except Exception as error:  # noqa: BLE001
            assert type(error).__name__ == "InvalidManifestPathError", repr(error)
        else:
            raise AssertionError(f"{path} could be read")


async def terminal(session: SandboxSession) -> None:
    began = time.monotonic()
    done = await session.pty_exec_start("echo out; exit 7", yield_time_s=30)
    assert (done.exit_code, done.process_id) == (7, None), done
    assert done.output == b"out\r\n", done
    # The end is told, so that nobody waits for the rest of the time.
    assert time.monotonic() - began < 20
    long = "x" * 20_000
    assert (await session.pty_exec_start(f"echo {long} | wc -c", yield_time_s=30)).output == b"20001\r\n"
    shell = await session.pty_exec_start("stty size; cat", tty=True, yield_time_s=1)
    assert shell.process_id is not None, shell
    assert b"24 80" in shell.output
    typed = await session.pty_write_stdin(session_id=shell.process_id, chars="typed\n", yield_time_s=1)
    assert typed.output.count(b"typed") == 2, typed
    ended = await session.pty_write_stdin(session_id=shell.process_id, chars="\x04", yield_time_s=30)
    assert ended.exit_code == 0, ended


async def terminals_end_with_their_client(session: SandboxSession) -> None:
    shell = await session.pty_exec_start("exec sleep 4242", tty=True, yield_time_s=0.3)
    assert shell.process_id is not None
    await session.pty_terminate_all()
    for _ in range(100):
        if not await said(session, "grep -l 424[2] /proc/[0-9]*/cmdline 2>/dev/null | cat"):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the command of the terminal goes on")


async def archives(session: SandboxSession) -> None:
    await said(
        session,
        "rm -rf * && mkdir -p keep .cache/deep && echo one >keep/one && ln keep/one keep/two && "
        "ln -s one keep/link && ln -s /etc/passwd keep/away && echo x >.cache/deep/x && mkfifo keep/pipe && "
        "chmod 750 keep/one",
    )
    session.register_persist_workspace_skip_path(".cache")
    archive = await session.persist_workspace()
    await said(session, "rm -rf keep .cache")
    await session.hydrate_workspace(archive)
    # Second names of a file are files of their own, and no device, pipe or link to the outside comes back.
    assert await said(session, "cat keep/two && ls -A . keep && stat -c %a%h keep/one") == (
        "one\n.:\nkeep\n\nkeep:\nlink\none\ntwo\n7501\n"
    )
    assert await said(session, "readlink keep/link") == "one\n"


async def bucket(session: SandboxSession) -> None:
    try:
        await session._inner.mount_bucket(bucket="b", mount_path="/workspace/b", options={})
    except MountConfigError as error:
        assert "mounts no buckets" in str(error.context), error.context
    else:
        raise AssertionError("a bucket was mounted")


async def refused_commands(session: SandboxSession) -> None:
    for argv in (("",), ("no-such-program",)):
        try:
            result = await session.exec(*argv, shell=False)
        except ExecTransportError as error:
            assert argv == ("",), error
            assert error.context["http_status"] == 422, error.context
        else:
            assert result.exit_code == 127, result


# Checks with sessions of their own --------------------------------------------------------------------


async def manifest() -> None:
    """Files and variables of a manifest are there."""
    variables = Environment(value={"MODE": "test"})
    wanted = Manifest(entries={"in/note.txt": File(content=b"from the manifest")}, environment=variables)
    session = await opened(manifest=wanted)
    try:
        assert await said(session, "cat in/note.txt; echo $MODE") == "from the manifesttest\n"
    finally:
        await closed(session)


async def concurrent_sessions() -> None:
    """Each has its own files, and many commands run in one at a time."""
    sessions = await asyncio.gather(*(opened() for _ in range(4)))
    try:
        await asyncio.gather(*(said(each, f"echo {n} >mine") for n, each in enumerate(sessions)))
        found = await asyncio.gather(*(said(each, "cat mine") for each in sessions))
        assert found == [f"{n}\n" for n in range(4)]
        many = await asyncio.gather(*(said(sessions[0], f"echo {n}") for n in range(16)))
        assert many == [f"{n}\n" for n in range(16)]
    finally:
        await asyncio.gather(*map(closed, sessions))


async def resume_after_delete() -> None:
    """An id whose sandbox was deleted gets a new one, and the client fills it from its snapshot."""
    with_files = await opened(snapshot=LocalSnapshotSpec(base_path=Path.cwd() / "snapshots"))
    await said(with_files, "echo kept >kept")
    state = with_files.state
    await closed(with_files)
    again = await CLIENT.resume(CLIENT.deserialize_session_state(CLIENT.serialize_session_state(state)))
    assert not await again.running()
    await again.start()
    try:
        assert again.state.sandbox_id == state.sandbox_id
        assert await again.running()
        assert await said(again, "cat kept") == "kept\n"
    finally:
        await closed(again)


async def resume_while_it_runs() -> None:
    first = await opened()
    await said(first, "echo here >/tmp/here")
    second = await CLIENT.resume(first.state)
    await second.start()
    try:
        assert await said(second, "cat /tmp/here") == "here\n"
    finally:
        await closed(second)


async def wrong_key() -> None:
    options = CloudflareSandboxClientOptions(worker_url=URL, api_key="wrong")
    try:
        await CLIENT.create(options=options)
    except Exception as error:  # noqa: BLE001
        assert "HTTP 401" in str(error), error
    else:
        raise AssertionError("the wrong key was accepted")


async def profiles() -> None:
    """The profile of the rules stands in the URL."""
    ask = f"curl -s -o /dev/null -w %{{http_code}} {os.environ['API']}/v1/user"
    for url, expected in ((URL, "403"), (f"{URL}/profiles/tracker", "200")):
        session = await opened(url)
        try:
            assert await said(session, ask) == expected, url
        finally:
            await closed(session)
    try:
        await opened(f"{URL}/profiles/unknown")
    except Exception as error:  # noqa: BLE001
        assert "profile" in str(error), error
    else:
        raise AssertionError("a profile that the rules do not have was accepted")


SHARED: dict[str, Callable[[SandboxSession], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        commands,
        large_output,
        timeout,
        files,
        event_like_files,
        escapes,
        terminal,
        terminals_end_with_their_client,
        archives,
        bucket,
        refused_commands,
    )
}


async def kept_session() -> None:
    """Leave a session behind, with its state in a file."""
    session = await opened(snapshot=LocalSnapshotSpec(base_path=Path.cwd() / "snapshots"))
    await said(session, "echo before >story")
    await session.stop()
    state = json.dumps(CLIENT.serialize_session_state(session.state))
    (Path.cwd() / "session.json").write_text(state, "utf-8")


OWN: dict[str, Callable[[], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        manifest,
        concurrent_sessions,
        resume_after_delete,
        resume_while_it_runs,
        wrong_key,
        profiles,
        kept_session,
    )
}


async def main(names: list[str]) -> None:
    failures: dict[str, str] = {}
    session = await opened()
    for name in names:
        try:
            await asyncio.wait_for(SHARED[name](session) if name in SHARED else OWN[name](), 120)
        except Exception:  # noqa: BLE001
            failures[name] = traceback.format_exc()
    await closed(session)
    print(json.dumps(failures))


async def resume() -> None:
    session = await CLIENT.resume(CLIENT.deserialize_session_state(json.load(sys.stdin)))
    async with session:
        print(await said(session, os.environ.get("FETCH", "true")) + await said(session, "cat story"), end="")
    await CLIENT.delete(session)


if __name__ == "__main__":
    match sys.argv[2:]:
        case ["resume"]:
            asyncio.run(resume())
        case names:
            asyncio.run(main(names))
