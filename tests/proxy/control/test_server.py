"""The control socket answers its own user in HTTP, and nobody and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from egress.control_client import CONTROL_SOCKET
from egress.errors import UnreadableError
from egress.proxy.control.server import Body, ControlReply, ControlServer


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: those of sockets may not be long."""
    with tempfile.TemporaryDirectory(prefix="egress-") as name:
        yield Path(name) / "run"


async def _echo(body: Body) -> ControlReply:
    return ControlReply(200, {"said": body})


async def _fail(_: Body) -> ControlReply:
    raise KeyError("sesame")


ROUTES = {
    ("GET", "/healthz"): _echo,
    ("POST", "/echo"): _echo,
    ("POST", "/fail"): _fail,
    ("DELETE", "/things/*"): _echo,
}


@pytest.fixture
async def control(folder: Path) -> AsyncIterator[ControlServer]:
    made = ControlServer(folder, ROUTES)
    await made.open()
    yield made
    await made.close()


async def ask(control: ControlServer, data: bytes) -> tuple[int, dict[str, object]]:
    reader, writer = await asyncio.open_unix_connection(control.path)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)


def request(line: str, body: bytes = b"") -> bytes:
    return f"{line} HTTP/1.1\r\nHost: egress\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


CHUNKED = b"POST /echo HTTP/1.1\r\nHost: egress\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_a_request_is_answered(control: ControlServer) -> None:
    assert await ask(control, request("GET /healthz")) == (200, {"said": {}})
    assert await ask(control, request("POST /echo", b'{"a": 1}')) == (200, {"said": {"a": 1}})


@pytest.mark.system("curl")
async def test_curl_is_answered(control: ControlServer) -> None:
    process = await asyncio.create_subprocess_exec(
        *("curl", "-s", "--noproxy", "*", "--unix-socket", str(control.path), "http://egress/healthz"),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert json.loads(out) == {"said": {}}


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("GET /nothing"), 404),
        (request("GET /echo"), 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET http://egress/healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/2\r\n\r\n", 400),
        (request("POST /echo", b"[1]"), 400),
        (request("POST /echo", b"{"), 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", 400),
        (b"GET http://egress/healthz HTTP/1.1\r\nHost: egress\r\n\r\n", 400),
        (b"CONNECT egress:80 HTTP/1.1\r\nHost: egress:80\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: egress\nX: y\r\n\r\n", 400),
        (request(f"GET /{'x' * 201}"), 400),
        (b"POST /echo HTTP/1.1\r\nHost: egress\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", 400),
        (CHUNKED + b"2\r\n{}\r\n" + b"0\r\nContent-Length: 2\r\n\r\n", 400),
        (CHUNKED + b"80000\r\n" + b" " * 0x80000 + b"\r\n80001\r\n" + b" " * 0x80001 + b"\r\n0\r\n\r\n", 400),
    ],
)
async def test_what_is_no_request_for_it_gets_an_error(
    control: ControlServer, data: bytes, status: int
) -> None:
    found, body = await ask(control, data)
    assert found == status
    assert "error" in body


async def test_a_body_in_chunks_is_read_whole(control: ControlServer) -> None:
    assert await ask(control, CHUNKED + b'5\r\n{"a":\r\n3\r\n 1}\r\n0\r\n\r\n') == (200, {"said": {"a": 1}})


async def test_a_request_that_ends_too_early_is_said(control: ControlServer) -> None:
    reader, writer = await asyncio.open_unix_connection(control.path)
    writer.write(request("POST /echo", b"{}")[:-1])
    writer.write_eof()
    assert b"did not arrive whole" in await reader.read()
    writer.close()
    await writer.wait_closed()


async def test_a_failure_ends_nothing_and_shows_nothing(control: ControlServer) -> None:
    status, body = await ask(control, request("POST /fail"))
    assert status == 500
    assert "sesame" not in str(body)
    assert (await ask(control, request("GET /healthz")))[0] == 200


async def test_only_its_owner_can_get_at_it(control: ControlServer) -> None:
    assert stat.S_IMODE(control.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(control.path.parent.stat().st_mode) == 0o700


FOREIGN = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as sock:
    try:
        sock.connect(sys.argv[1])
    except PermissionError:
        sys.exit(13)
    try:
        sock.sendall(b"GET /healthz HTTP/1.1\\r\\nHost: egress\\r\\n\\r\\n")
        sys.exit(0 if sock.recv(10) else 7)
    except ConnectionError:
        sys.exit(7)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("is_open", "status"), [(False, 13), (True, 7)])
async def test_another_user_gets_no_answer(control: ControlServer, is_open: bool, status: int) -> None:
    """Kept out by the modes; and where these were undone, by who the kernel says it is."""
    if is_open:
        for path in (control.path.parent.parent, control.path.parent, control.path):
            path.chmod(0o777)
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", FOREIGN, str(control.path)], check=False, timeout=60
    )
    assert done.returncode == status


async def test_a_second_proxy_is_told_of_the_first(control: ControlServer, folder: Path) -> None:
    with pytest.raises(UnreadableError, match="another egress is running") as caught:
        await ControlServer(folder, ROUTES).open()
    assert "--runtime-dir" in caught.value.hint
    assert (await ask(control, request("GET /healthz")))[0] == 200


async def test_it_is_told_which_one_and_where_it_listens(folder: Path) -> None:
    async def status(_: Body) -> ControlReply:
        boxes = [{"listeners": ["127.0.0.1:3128"]}, {"listeners": ["[::1]:1"]}, {}]
        return ControlReply(200, {"sandboxes": boxes})

    first = ControlServer(folder, {("GET", "/status"): status})
    await first.open()
    with pytest.raises(UnreadableError) as caught:
        await ControlServer(folder, ROUTES).open()
    assert f"another egress is running (pid {os.getpid()}, 127.0.0.1:3128, [::1]:1), with" in str(
        caught.value
    )
    await first.close()


async def test_one_that_does_not_answer_is_told_by_its_process(folder: Path) -> None:
    async def hang(_: Body) -> ControlReply:
        await asyncio.Event().wait()
        raise AssertionError

    first = ControlServer(folder, {("GET", "/status"): hang})
    await first.open()
    with pytest.raises(UnreadableError, match=rf"another egress is running \(pid {os.getpid()}\), with"):
        await ControlServer(folder, ROUTES).open()
    await first.close()


async def test_one_that_has_not_opened_its_socket_yet_is_told_without(
    control: ControlServer, folder: Path
) -> None:
    control.path.unlink()
    with pytest.raises(UnreadableError, match="another egress is running, with its control socket"):
        await ControlServer(folder, ROUTES).open()


async def test_the_hint_names_the_option_that_the_folder_came_from(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError) as caught:
        await ControlServer(Path("/proc/egress/run"), ROUTES, "--state-dir").open()
    assert "--state-dir" in caught.value.hint
    assert "--runtime-dir" not in caught.value.hint


async def test_what_a_killed_proxy_left_is_in_nobodys_way(folder: Path) -> None:
    folder.mkdir(parents=True)  # noqa: ASYNC240 - nothing runs beside it
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / CONTROL_SOCKET))
    control = ControlServer(folder, ROUTES)
    await control.open()
    assert (await ask(control, request("GET /healthz")))[0] == 200
    await control.close()
    assert not control.path.exists()


async def test_it_can_be_opened_again_after_it_was_closed(folder: Path) -> None:
    for _ in range(2):
        control = ControlServer(folder, ROUTES)
        await control.open()
        await control.close()


async def test_a_path_that_is_too_long_names_the_cure(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError) as caught:
        await ControlServer(tmp_path / ("x" * 100), ROUTES).open()
    assert "--runtime-dir" in caught.value.hint


async def test_a_folder_that_cannot_be_made_names_the_cure() -> None:
    with pytest.raises(UnreadableError) as caught:
        await ControlServer(Path("/proc/egress"), ROUTES).open()
    assert "--runtime-dir" in caught.value.hint


@pytest.fixture
def link(folder: Path) -> Path:
    real = folder.parent / "real"
    real.mkdir()
    folder.symlink_to(real)
    return folder


async def test_a_link_in_the_place_of_the_folder_is_refused(link: Path) -> None:
    with pytest.raises(UnreadableError, match="not a folder of your own"):
        await ControlServer(link, ROUTES).open()


async def test_the_last_part_of_a_path_can_be_a_name(control: ControlServer) -> None:
    """What the path names goes before what the body says."""
    status, body = await ask(control, request("DELETE /things/box", b'{"name": "other", "more": 1}'))
    assert (status, body) == (200, {"said": {"name": "box", "more": 1}})
    status, body = await ask(control, request("GET /things/box"))
    assert (status, body["error"]) == (405, "use DELETE")
    for path in ("/things/", "/things/a/b", "/things"):
        assert (await ask(control, request(f"DELETE {path}")))[0] == 404
