"""Calls of agent-sandbox's client have the shapes that it reads, and no spelling leads past their bounds."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.api_server.agent_sandbox import MAX_TIMEOUT
from egress.fleet.lifetime import SandboxLifetime
from egress.runtime.spec import MIB
from tests.api_server.agent_sandbox_lab import FORM, RIGHT, RouterLab, form, router_lab
from tests.api_server.lab import ApiLab

SECRET = "canary-Secret_0123456789"
CALLS = (
    ("GET", "/"),
    ("POST", "/execute"),
    ("POST", "/upload"),
    ("GET", "/download/a"),
    ("GET", "/list/a"),
    ("GET", "/exists/a"),
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterLab]:
    with router_lab(tmp_path_factory.mktemp("router")) as lab:
        yield lab


def test_every_call_wants_the_token(lab: RouterLab) -> None:
    wrong = f"GET / HTTP/1.1\r\nHost: {lab.port.at}\r\nX-Sandbox-ID: one\r\nAuthorization: {RIGHT}x\r\n\r\n"
    with socket.create_connection((lab.port.at.host, lab.port.at.port), 30) as sock:
        sock.sendall(wrong.encode())
        assert b" 401 " in sock.recv(65536)
    assert lab.ask("GET", "/") == (200, {"message": "the sandbox takes commands", "status": "ok"})


def test_the_socket_of_the_owner_has_none_of_the_calls() -> None:
    from tests.api_server.lab import api_lab

    with api_lab() as owner:
        assert isinstance(owner, ApiLab)
        for method, path in CALLS:
            assert owner.ask(method, path).status == 404, path


def test_a_command_is_a_line_for_a_shell(lab: RouterLab) -> None:
    assert lab.execute("echo $((1 + 1)) | tr 2 3; echo odd >&2; exit 4") == (
        200,
        {"stdout": "3\n", "stderr": "odd\n", "exit_code": 4, "timed_out": False},
    )


def test_bytes_that_are_no_text_are_replaced(lab: RouterLab) -> None:
    assert lab.execute(r"printf '\377'")[1]["stdout"] == "�"


def test_a_command_ends_with_its_timeout_and_its_output_is_kept(lab: RouterLab) -> None:
    status, answer = lab.execute("echo begun; sleep 60", timeout_seconds=0.3)
    assert (status, answer["stdout"], answer["exit_code"], answer["timed_out"]) == (200, "begun\n", 124, True)


def test_a_command_ends_when_its_client_gives_up(lab: RouterLab) -> None:
    body = b'{"command": "sleep 60"}'
    assert lab.ask("POST", "/execute", body, X_Sandbox_Timeout="0.3")[1]["timed_out"]


@pytest.mark.parametrize("timeout", ["0", "-1", "1e3", "nan", "inf", f"{MAX_TIMEOUT + 1:.0f}", "1, 2", " "])
def test_a_timeout_of_another_form_is_refused(lab: RouterLab, timeout: str) -> None:
    status, answer = lab.ask("POST", "/execute", b'{"command": "true"}', X_Sandbox_Timeout=timeout)
    assert (status, answer["type"]) == (400, "request.invalid")


@pytest.mark.parametrize(
    "fields",
    [
        {"timeout_seconds": 0},
        {"timeout_seconds": MAX_TIMEOUT + 1},
        {"timeout_seconds": "1"},
        {"env": {"A": SECRET}},
        {"cwd": "/"},
    ],
)
def test_a_body_of_another_form_is_refused_without_its_values(
    lab: RouterLab, fields: dict[str, object]
) -> None:
    status, answer = lab.execute("true", **fields)
    assert (status, answer["type"]) == (400, "request.invalid")
    assert SECRET not in str(answer)
    assert lab.execute("")[0] == lab.ask("POST", "/execute", b"[]")[0] == 400


def test_output_beyond_the_limit_is_cut_and_said_to_be(
    lab: RouterLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egress.api_server.agent_sandbox.MAX_OUTPUT_BYTES", 10)
    answer = lab.execute("head -c 11 /dev/zero | tr '\\0' x; echo why >&2")[1]
    assert answer["stdout"] == "x" * 10
    assert answer["stderr"] == "why\n\negress: the output was cut after 10 bytes\n"
    assert lab.execute("head -c 10 /dev/zero | tr '\\0' x")[1]["stderr"] == ""


def test_a_file_comes_back_as_it_was_sent(lab: RouterLab) -> None:
    content = os.urandom(300_000)
    assert lab.upload("notes/to day.bin", content) == (
        200,
        {"message": "the file notes/to day.bin was written"},
    )
    assert (lab.workspace / "notes/to day.bin").read_bytes() == content
    assert lab.ask("GET", "/download/notes%2Fto%20day.bin") == (200, content)
    assert lab.ask("GET", "/exists/notes%2Fto%20day.bin") == (
        200,
        {"path": "notes/to day.bin", "exists": True},
    )
    assert lab.ask("GET", "/exists/other")[1] == {"path": "other", "exists": False}
    assert lab.upload("empty", b"")[0] == 200
    assert lab.ask("GET", "/download/empty") == (200, b"")


def test_a_folder_is_listed_in_the_two_types_that_the_client_knows(lab: RouterLab) -> None:
    folder = lab.workspace / "mixed"
    (folder / "inner").mkdir(parents=True)
    (folder / "file").write_bytes(b"four")
    (folder / "link").symlink_to("inner")
    os.utime(folder / "file", (1_700_000_000, 1_700_000_000))
    status, found = lab.ask("GET", "/list/mixed")
    assert (status, [(each["name"], each["type"]) for each in found]) == (
        200,
        [("file", "file"), ("inner", "directory"), ("link", "file")],
    )
    assert found[0] == {"name": "file", "size": 4, "type": "file", "mod_time": 1_700_000_000.0}
    assert lab.ask("GET", "/list/mixed%2Finner") == (200, [])
    # The client removes the dot of the folder itself.
    assert lab.ask("GET", "/list/")[1] == lab.ask("GET", "/list/%2F")[1] == lab.ask("GET", "/list/.")[1] != []


def test_all_calls_read_a_slash_in_front_alike(lab: RouterLab) -> None:
    assert lab.upload("/slash/a", b"1")[0] == 200
    assert lab.ask("GET", "/download/%2Fslash%2Fa") == lab.ask("GET", "/download/slash%2Fa") == (200, b"1")
    assert lab.ask("GET", "/list/%2Fslash")[1][0]["name"] == "a"
    assert lab.ask("GET", "/exists/%2Fslash%2Fa")[1]["exists"]


OUTSIDE = ("../one-secret", "a/../../one-secret", "//..//one-secret", "escape/one-secret", "/../one-secret")


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_the_workspace(lab: RouterLab, path: str) -> None:
    secret = lab.workspace.parent / "one-secret"
    secret.write_text(SECRET)
    (lab.workspace / "a").mkdir(exist_ok=True)
    link = lab.workspace / "escape"
    if not link.is_symlink():
        link.symlink_to(secret.parent)
    quoted = path.replace("/", "%2F").replace(".", "%2e")
    for call in ("download", "list", "exists"):
        for spelling in (quoted, path):
            status, answer = lab.ask("GET", f"/{call}/{spelling}")
            assert (status, answer["type"]) == (403, "path.outside"), (call, spelling)
    assert lab.upload(path, b"harm")[0] == 403
    assert secret.read_text() == SECRET
    assert lab.ask("GET", "/exists/a")[1]["exists"]


@pytest.mark.parametrize("path", ["%", "%2", "%zz", "%ff", "a%00b", "a%09b", "a%7f", "%C2%85", "a?b=c"])
def test_a_path_of_another_form_is_refused(lab: RouterLab, path: str) -> None:
    for call in ("download", "list", "exists"):
        status, answer = lab.ask("GET", f"/{call}/{path}")
        assert (status, answer["type"]) == (400, "request.invalid"), call


def test_a_path_is_decoded_once(lab: RouterLab) -> None:
    (lab.workspace / "a%2Fb").write_text("plain")
    assert lab.ask("GET", "/download/a%252Fb") == (200, b"plain")
    assert lab.ask("GET", "/exists/%252e%252e%252fone-secret")[1] == {
        "path": "%2e%2e%2fone-secret",
        "exists": False,
    }


def test_what_is_missing_or_of_another_kind_is_told(lab: RouterLab) -> None:
    (lab.workspace / "folder").mkdir()
    (lab.workspace / "file").touch()
    assert [lab.ask("GET", each)[0] for each in ("/download/none", "/list/none")] == [404, 404]
    assert [lab.ask("GET", each)[1]["type"] for each in ("/download/folder", "/list/file")] == [
        "path.kind",
        "path.kind",
    ]
    assert lab.upload("folder", b"")[1]["type"] == "path.kind"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("X-Sandbox-ID", "")],
        [("X-Sandbox-ID", "../one")],
        [("X-Sandbox-ID", "One")],
        [("X-Sandbox-ID", "one,two")],
        [("X-Sandbox-ID", "one"), ("X-Sandbox-ID", "two")],
        [("X-Sandbox-ID", "one"), ("x-sandbox-id", "one")],
        [("X-Sandbox-ID", "one"), ("X-Sandbox-Namespace", "default"), ("X-Sandbox-Namespace", "default")],
        [("X-Sandbox-ID", "one"), ("X-Sandbox-Port", "80")],
        [("X-Sandbox-ID", "one"), ("X-Sandbox-Port", "8888 ,80")],
        [("X-Sandbox-ID", "one"), ("X-Sandbox-Port", "08888")],
    ],
)
def test_headers_that_name_no_sandbox_or_two_are_refused(
    lab: RouterLab, headers: list[tuple[str, str]]
) -> None:
    assert lab.raw("GET", "/", None, headers)[0] == 400
    assert lab.raw("GET", "/", None, [("X-Sandbox-ID", "one")])[0] == 200


def test_a_sandbox_of_another_client_or_namespace_is_not_found(lab: RouterLab) -> None:
    lab.running("theirs", SandboxLifetime(owner="openai-agents"))
    lab.running("claimed", SandboxLifetime(owner="agent-sandbox"), labels={"agents.x-k8s.io/namespace": "a"})
    body = b'{"command": "echo reached"}'
    for name, namespace, found in (
        ("theirs", "default", 404),
        ("claimed", "default", 404),
        ("claimed", "b", 404),
        ("claimed", "a", 200),
        ("none", "default", 404),
        ("one", "a", 404),
        ("one", "default", 200),
    ):
        answer = lab.ask("POST", "/execute", body, X_Sandbox_ID=name, X_Sandbox_Namespace=namespace)
        assert (answer[0], "reached" in str(answer)) == (found, found == 200), (name, namespace)


def test_the_address_of_a_pod_leads_nowhere(lab: RouterLab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.2)
        where = f"127.0.0.1:{other.getsockname()[1]}"
        assert lab.ask("GET", "/", X_Sandbox_Pod_IP=where)[0] == 200
        with pytest.raises(TimeoutError):
            other.accept()


def test_a_form_that_breaks_off_leaves_nothing(lab: RouterLab) -> None:
    assert lab.ask("POST", "/upload", form("broken", b"x" * 1000)[:-3], Content_Type=FORM)[0] == 400
    assert lab.ask("POST", "/upload", form("broken", b"x") + b"more", Content_Type=FORM)[0] == 400
    assert lab.ask("POST", "/upload", b"x", Content_Type="text/plain")[0] == 400
    assert not (lab.workspace / "broken").exists()
    assert not list(lab.workspace.glob(".egress-*"))


def test_a_file_over_the_limit_is_refused_and_leaves_nothing(
    lab: RouterLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egress.api_server.upload_form.UploadForm.__init__.__defaults__", (1000,))
    status, answer = lab.upload("over", b"x" * 1001)
    assert (status, answer["type"]) == (413, "request.too_large")
    assert not (lab.workspace / "over").exists()
    assert lab.upload("over", b"x" * 1000)[0] == 200


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_large_file_passes_in_constant_memory(lab: RouterLab) -> None:
    whole = form("large", b"?")
    head, _, tail = whole.partition(b"?")
    piece = bytes(range(256)) * 256

    def pieces() -> Iterator[bytes]:
        yield head
        for _ in range(100 * MIB // len(piece)):
            yield piece
        yield tail

    peak = [_resident()]
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            peak.append(_resident())

    watching = threading.Thread(target=watch)
    watching.start()
    before = peak[0]
    try:
        assert lab.ask("POST", "/upload", pieces(), Content_Type=FORM)[0] == 200
        received = lab.download_size("large")
    finally:
        is_over.set()
        watching.join()
    assert (lab.workspace / "large").stat().st_size == received == 100 * MIB
    assert max(peak) - before < 48 * MIB


def test_a_client_that_leaves_ends_its_command(lab: RouterLab) -> None:
    body = b'{"command": "echo $$ >pid; exec sleep 600"}'
    with socket.create_connection((lab.port.at.host, lab.port.at.port), 30) as sock:
        head = f"POST /execute HTTP/1.1\r\nHost: {lab.port.at}\r\nAuthorization: {RIGHT}\r\n"
        sock.sendall(f"{head}X-Sandbox-ID: one\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        pid = _until(lambda: (lab.workspace / "pid").exists() and (lab.workspace / "pid").read_text().strip())
        assert Path(f"/proc/{pid}").exists()
    _until(lambda: not Path(f"/proc/{pid}").exists())


def _until[T](look: object) -> object:
    assert callable(look)
    for _ in range(600):
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in 30 s")
