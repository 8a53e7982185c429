"""A form is read in pieces of any size, has one reading, and holds no more than a piece."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.api_server.call import UnfitRequestError
from egress.api_server.upload_form import MAX_PART_HEAD_BYTES, UploadForm, UploadTooLargeError
from tests.api_server.agent_sandbox_lab import BOUNDARY, FORM, form

HEAD = 'Content-Disposition: form-data; name="file"; filename="a.txt"'
names = st.text(st.characters(blacklist_categories=["Cc", "Cs"]), min_size=1, max_size=40)


def read(body: bytes, size: int = 65536, most: int = 1 << 20) -> tuple[str | None, bytes]:
    """Read a form in pieces of one size."""
    found = UploadForm(FORM, most)
    content = b"".join(found.feed(body[start : start + size]) for start in range(0, len(body), size))
    found.finish()
    return found.path, content


def part(head: str, content: bytes = b"x") -> bytes:
    return f"--{BOUNDARY}\r\n{head}\r\n\r\n".encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()


@given(names, st.binary(max_size=400), st.integers(1, 500))
def test_a_plain_name_and_any_content_arrive_as_they_were_sent(name: str, content: bytes, size: int) -> None:
    # Content that holds its own boundary is no form that a client sends.
    body = form(name, content.replace(BOUNDARY.encode(), b""))
    is_plain = name.isprintable() and not re.search(r'"|\\|%22|%0[AaDd]', name)
    if is_plain:
        assert read(body, size) == (name, content.replace(BOUNDARY.encode(), b""))
    else:
        with pytest.raises(UnfitRequestError):
            read(body, size)


@given(st.binary(max_size=300), st.integers(1, 40))
def test_any_bytes_are_a_form_or_refused(data: bytes, size: int) -> None:
    for body in (data, part(HEAD)[:40] + data, part(HEAD) + data):
        try:
            path, content = read(body, size)
        except UnfitRequestError:
            continue
        assert form(path or "", content) in (body, body + b"\r\n")


@pytest.mark.parametrize("size", [1, 7, 65536])
@pytest.mark.parametrize(
    "content", [b"", b"\r\n", b"\r\n--", b"\r\n--0f1e2d3c", b"--" + BOUNDARY[:-1].encode()]
)
def test_what_is_nearly_a_boundary_is_content(content: bytes, size: int) -> None:
    assert read(form("a.txt", content), size) == ("a.txt", content)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"text before\r\n" + part(HEAD),
        part(HEAD)[:-4],
        part(HEAD) + b"text behind",
        part(HEAD) + part(HEAD),
        part(HEAD).removesuffix(b"--\r\n") + b"\r\n" + part(HEAD).partition(b"\r\n")[2],
        part(HEAD).replace(b"\r\n", b"\n"),
        part(HEAD.replace('"file"', '"other"')),
        part(HEAD.replace("; filename=", "; filename*=UTF-8''b; filename=")),
        part(f'{HEAD}; filename="b.txt"'),
        part(f"{HEAD}\r\nContent-Transfer-Encoding: base64"),
        part(f"{HEAD}\r\n{HEAD}"),
        part(f"{HEAD}\r\n X: folded"),
        part('Content-Disposition: form-data; name="file"'),
        part('Content-Disposition: form-data; name="file"; filename=""'),
        part("Content-Type: text/plain"),
        part(HEAD).replace(b"a.txt", b"\xff.txt"),
        part(HEAD).replace(b"a.txt", b"a\0.txt"),
        part(HEAD).replace(b"a.txt", b"a%22.txt"),
        part(HEAD).replace(b"a.txt", b"a%0d.txt"),
        part(HEAD).replace(b"a.txt", b"..\\a.txt"),
        part(HEAD).replace(b"a.txt", b"a\x7f.txt"),
    ],
)
def test_a_form_that_can_be_read_in_another_way_is_refused(body: bytes) -> None:
    with pytest.raises(UnfitRequestError):
        read(body)
    assert read(part(HEAD)) == read(part(f"{HEAD}\r\nContent-Type: text/plain")) == ("a.txt", b"x")


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=a; boundary=b",
        f"multipart/form-data; boundary={'a' * 71}",
        'multipart/form-data; boundary="a',
        "multipart/mixed; boundary=a",
        "application/json",
    ],
)
def test_a_body_of_another_type_is_refused(content_type: str) -> None:
    with pytest.raises(UnfitRequestError, match="not a form"):
        UploadForm(content_type)
    assert UploadForm('Multipart/Form-Data; boundary="a"').path is None


def test_a_head_without_end_is_refused_before_it_is_kept() -> None:
    found = UploadForm(FORM)
    found.feed(part(HEAD)[:40])
    with pytest.raises(UnfitRequestError, match="too long"):
        found.feed(b"a" * MAX_PART_HEAD_BYTES)


def test_a_file_over_the_limit_is_refused_as_soon_as_it_is_over() -> None:
    assert read(form("a", b"x" * 100), most=100)[1] == b"x" * 100
    found = UploadForm(FORM, 100)
    with pytest.raises(UploadTooLargeError):
        found.feed(form("a", b"x" * 101))


def test_what_follows_the_form_is_refused_before_it_is_kept() -> None:
    found = UploadForm(FORM)
    found.feed(form("a", b"x"))
    with pytest.raises(UnfitRequestError, match="goes on"):
        found.feed(b"\r\n" * 100)
