"""Changes as events, from the beginning of the answer until the client leaves."""

from __future__ import annotations

from tests.api_server.file_lab import FileLab


def test_changes_are_events_until_the_client_leaves(files: FileLab) -> None:
    (files.workspace / "src").mkdir()
    with files.connect() as sock, sock.makefile("rb") as lines:
        target = files.target("watch", path="src", interval="0.05")
        sock.sendall(f"GET {target} HTTP/1.1\r\nHost: egress\r\n\r\n".encode())
        while b": watching" not in lines.readline():
            pass
        (files.workspace / "src/new").write_text("x")
        while not (line := lines.readline()).startswith(b"data:"):
            pass
        assert line == b'data: {"kind":"made","path":"src/new"}\n'
        # The file of the socket holds it open.
    assert files.runtime.started[-1].wait(20).exit_code != 0


def test_what_cannot_be_watched_is_a_problem(files: FileLab) -> None:
    for path, status in (("..", 403), ("", 422)):
        assert files.ask("GET", "watch", path=path).status == status
    assert files.ask("GET", "watch", path=".", interval="0").status == 400
