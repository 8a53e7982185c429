"""Archives as streams: whole ones arrive, and broken ones leave nothing."""

from __future__ import annotations

from tests.api_server.lab import ApiLab
from tests.unit.runtime.contract import archive

ARCHIVE = "/v1/sandboxes/one/archive?path=/workspace"


def test_an_archive_goes_in_and_comes_out(lab: ApiLab) -> None:
    lab.running()
    assert lab.ask("PUT", ARCHIVE, archive(a=b"x" * 300_000).getvalue()).status == 204
    answer = lab.ask("GET", ARCHIVE)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-tar")
    assert b"x" * 300_000 in answer.body


def test_a_path_that_does_not_exist_is_a_problem(lab: ApiLab) -> None:
    lab.running()
    answer = lab.ask("GET", "/v1/sandboxes/one/archive?path=/nowhere")
    assert (answer.status, answer.body["type"]) == (404, "path.not_found")


def test_a_request_that_breaks_off_leaves_nothing(lab: ApiLab) -> None:
    lab.running()
    data = archive(a=b"x" * 10_000).getvalue()
    with lab.connect() as sock:
        head = f"PUT {ARCHIVE} HTTP/1.1\r\nHost: egress\r\nContent-Length: {len(data)}\r\n\r\n"
        sock.sendall(head.encode() + data[:6000])
    lab.server.close()
    assert list(lab.estate.runtime.files("one").below("/workspace")) == []


def test_other_bytes_are_no_archive(lab: ApiLab) -> None:
    lab.running()
    answer = lab.ask("PUT", ARCHIVE, b"these bytes are no archive" * 100)
    assert (answer.status, answer.body["type"]) == (422, "archive.refused")
