"""Files over the API: whole ones and parts, and nothing of a file that did not arrive whole."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.api_server.file_lab import FileLab

LARGE = os.urandom(3_000_000)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_file_goes_in_and_comes_out(files: FileLab) -> None:
    assert files.ask("PUT", "file", LARGE, path="deep/new/data.bin", mode="750").status == 204
    assert (files.workspace / "deep/new/data.bin").read_bytes() == LARGE
    answer = files.ask("GET", "file", path="deep/new/data.bin")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/octet-stream")
    assert (answer.headers["accept-ranges"], answer.body == LARGE) == ("bytes", True)
    facts = files.ask("GET", "stat", path="deep/new/data.bin").body
    assert (facts["kind"], facts["size"], facts["mode"]) == ("file", len(LARGE), "750")
    assert names(files.workspace / "deep/new") == ["data.bin"]


def test_an_empty_file_is_one(files: FileLab) -> None:
    assert files.ask("PUT", "file", b"", path="empty").status == 204
    answer = files.ask("GET", "file", path="empty")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "0")


def test_the_head_of_a_file_says_its_size(files: FileLab) -> None:
    (files.workspace / "a").write_bytes(b"x" * 1000)
    answer = files.ask("HEAD", "file", headers={"Range": "bytes=0-1"}, path="a")
    assert (answer.status, answer.headers["content-length"], answer.body) == (200, "1000", b"")
    assert files.ask("HEAD", "file", path=".").status == 422
    assert files.ask("HEAD", "file", path="no").status == 404


@pytest.mark.parametrize(
    ("wanted", "first", "last"),
    [("0-0", 0, 0), ("5-9", 5, 9), ("2999990-", 2_999_990, 2_999_999), ("-3", 2_999_997, 2_999_999)],
)
def test_a_part_of_a_file_is_sent(files: FileLab, wanted: str, first: int, last: int) -> None:
    (files.workspace / "a").write_bytes(LARGE)
    answer = files.ask("GET", "file", headers={"Range": f"bytes={wanted}"}, path="a")
    assert (answer.status, answer.body) == (206, LARGE[first : last + 1])
    assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(LARGE)}"


def test_a_part_beyond_the_file_is_refused_with_its_size(files: FileLab) -> None:
    (files.workspace / "a").write_bytes(b"12345")
    answer = files.ask("GET", "file", headers={"Range": "bytes=5-"}, path="a")
    assert (answer.status, answer.body["type"]) == (416, "range.unsatisfiable")
    assert answer.headers["content-range"] == "bytes */5"
    assert files.runtime.started[-1].wait(20).exit_code != 0


def test_a_condition_on_a_range_never_holds(files: FileLab) -> None:
    (files.workspace / "a").write_bytes(b"12345")
    answer = files.ask("GET", "file", headers={"Range": "bytes=1-1", "If-Range": '"tag"'}, path="a")
    assert (answer.status, answer.body) == (200, b"12345")


def test_an_upload_that_breaks_off_leaves_nothing(files: FileLab) -> None:
    (files.workspace / "a").write_bytes(b"old")
    with files.connect() as sock:
        head = (
            f"PUT {files.target('file', path='a')} HTTP/1.1\r\nHost: egress\r\nContent-Length: 999999\r\n\r\n"
        )
        sock.sendall(head.encode() + b"x" * 300_000)
        # The command is there once another call has been answered that was made after it.
        while not files.runtime.started:
            files.ask("GET", "stat", path="a")
    assert files.runtime.started[0].wait(20).exit_code != 0
    assert {each: (files.workspace / each).read_bytes() for each in names(files.workspace)} == {"a": b"old"}


def test_chunks_that_break_off_leave_nothing(files: FileLab) -> None:
    with files.connect() as sock:
        line = f"PUT {files.target('file', path='a')} HTTP/1.1\r\n"
        head = f"{line}Host: egress\r\nTransfer-Encoding: chunked\r\n\r\n"
        sock.sendall(head.encode() + b"5\r\nhello\r\n")
        while not files.runtime.started:
            files.ask("GET", "stat", path=".")
    assert files.runtime.started[0].wait(20).exit_code != 0
    assert names(files.workspace) == []


def test_a_client_that_leaves_ends_the_command(files: FileLab) -> None:
    (files.workspace / "a").write_bytes(LARGE * 2)
    with files.connect() as sock:
        sock.sendall(f"GET {files.target('file', path='a')} HTTP/1.1\r\nHost: egress\r\n\r\n".encode())
        assert sock.recv(1000).startswith(b"HTTP/1.1 200")
    assert files.runtime.started[0].wait(20).exit_code != 0


def test_what_is_no_file_is_refused(files: FileLab) -> None:
    os.mkfifo(files.workspace / "pipe")
    for path, status, kind in (
        ("pipe", 422, "path.kind"),
        (".", 422, "path.kind"),
        ("no/where", 404, "path.not_found"),
        ("pipe/x", 422, "path.kind"),
        ("", 422, "spec.invalid"),
        ("a\0b", 422, "spec.invalid"),
    ):
        answer = files.ask("GET", "file", path=path)
        assert (answer.status, answer.body["type"]) == (status, kind), path
    for path in (".", ""):
        assert files.ask("PUT", "file", b"x" * 1_000_000, path=path).status == 422


@pytest.mark.parametrize(
    "path", ["../secret", "a/../../secret", "out", "folder/secret", "./../workspace/../secret"]
)
def test_a_relative_path_cannot_leave_the_workspace(files: FileLab, path: str) -> None:
    outside = files.workspace.parent / "secret"
    outside.write_text("secret")
    (files.workspace / "a").mkdir()
    (files.workspace / "out").symlink_to("../secret")
    (files.workspace / "folder").symlink_to("..")
    calls = [("GET", "file", None), ("HEAD", "file", None), ("PUT", "file", b"new"), ("GET", "stat", None)]
    for method, call, body in calls:
        assert files.ask(method, call, body, path=path).status == 403, (method, call)
    if path != "out":
        # A link itself is in the workspace, and may be removed and renamed.
        assert files.ask("DELETE", "file", path=path).status == 403
        assert files.ask("POST", "rename", {"path": path, "target": "b"}).status == 403
    assert files.ask("POST", "rename", {"path": "a", "target": "../b"}).status == 403
    assert files.ask("POST", "dir", {"path": "../made"}).status == 403
    for listed in ("..", "folder", "a/../.."):
        assert files.ask("GET", "dir", path=listed).status == 403
    assert outside.read_text() == "secret"
    assert names(files.workspace.parent) == ["secret", "workspace"]


def test_an_absolute_path_is_used_as_written(files: FileLab) -> None:
    outside = files.workspace.parent / "other"
    assert files.ask("PUT", "file", b"x", path=str(outside)).status == 204
    assert files.ask("GET", "file", path=str(outside)).body == b"x"
    answer = files.ask("GET", "file", path="/proc/self/mem/x")
    assert answer.status in (403, 404, 422)


@pytest.mark.parametrize("mode", ["8", "7777", "0755", "abc", "+75", "75\n", ""])
def test_permissions_are_three_octal_digits(files: FileLab, mode: str) -> None:
    answer = files.ask("PUT", "file", b"x", path="a", mode=mode)
    assert (answer.status, answer.body["type"]) == (400, "request.invalid")
    assert names(files.workspace) == []


def test_a_folder_is_made_listed_renamed_and_removed(files: FileLab) -> None:
    assert files.ask("POST", "dir", {"path": "a/b"}).status == 204
    assert files.ask("POST", "dir", {"path": "a/b", "parents": False}).status == 409
    files.ask("PUT", "file", b"12345", path="a/line\nend")
    (files.workspace / "a/link").symlink_to("nowhere")
    (files.workspace / os.fsdecode(b"a/\xff")).touch()
    answer = files.ask("GET", "dir", path="a").body
    found = {each["name"]: (each["kind"], each["is_link"]) for each in answer["entries"]}
    assert found == {
        "b": ("folder", False),
        "line\nend": ("file", False),
        "link": ("other", True),
        "\ufffd": ("file", False),
    }
    assert next(each["size"] for each in answer["entries"] if each["name"] == "line\nend") == 5
    assert files.ask("POST", "rename", {"path": "a", "target": "c"}).status == 204
    assert files.ask("DELETE", "file", path="c").status == 422
    assert files.ask("DELETE", "file", path="c", recursive="true").status == 204
    assert names(files.workspace) == []


def test_odd_names_are_names(files: FileLab) -> None:
    for name in ("two words", "-n", "$(id)", "a'b\"c", "*", "ü", "a&path=b", "%2e%2e", "back\\slash", "#"):
        assert files.ask("PUT", "file", name.encode(), path=name).status == 204
        assert files.ask("GET", "file", path=name).body == name.encode()
        assert (files.workspace / name).read_bytes() == name.encode()


def test_a_query_with_a_second_path_is_refused(files: FileLab) -> None:
    target = "file?" + urlencode([("path", "a"), ("path", "b")])
    assert files.ask("GET", target).status == 400
