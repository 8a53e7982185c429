"""The headers for a collector: a strict file, read anew, whose values nobody sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.errors import ContentError, EgressError, UnreadableError
from egress.telemetry.otlp_headers import MAX_HEADERS_BYTES, CollectorHeaders, parse_headers


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_a_file_is_read_and_read_again(tmp_path: Path) -> None:
    path = written(tmp_path / "headers", "Authorization: Bearer one\r\n\nx-scope:a: b c\n")
    headers = CollectorHeaders(path)
    assert headers.current() == {"authorization": "Bearer one", "x-scope": "a: b c"}
    written(path, "authorization: Bearer two\n")
    assert headers.current() == {"authorization": "Bearer two"}


def test_while_it_is_being_replaced_the_last_ones_stay(tmp_path: Path) -> None:
    path = written(tmp_path / "headers", "authorization: one\n")
    headers = CollectorHeaders(path)
    path.unlink()
    assert headers.current() == {"authorization": "one"}
    written(path, "no header at all")
    assert headers.current() == {"authorization": "one"}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", " has no header"),
        ("word\n", ":1 is not a name"),
        ("a: 1\nb word\n", ":2 is not a name"),
        ("a:\n", ":1 is not a name"),
        ("a: wo\x07rd\n", ":1 is not a name"),
        ("a b: word\n", ":1 is not a name"),
        (" a: word\n", ":1 is not a name"),
        ("Host: word\n", ":1 sets host"),
        ("content-length: 7\n", ":1 sets content-length"),
        ("a: word\nA: word\n", ":2 sets a a second time"),
        ("a: w\N{LATIN SMALL LETTER O WITH DIAERESIS}rd\n", " is not plain ASCII"),
        ("".join(f"a{number}: word\n" for number in range(17)), " has more than 16 headers"),
        ("a: " + "word" * MAX_HEADERS_BYTES, " has more than"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line_and_not_quoted(
    tmp_path: Path, text: str, where: str
) -> None:
    path = written(tmp_path / "headers", text)
    with pytest.raises(ContentError) as refused:
        CollectorHeaders(path)
    assert str(refused.value).startswith(f"{path}{where}")
    assert "word" not in str(refused.value).removeprefix(str(path))


def test_a_file_that_others_can_read_is_refused_and_so_is_none(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="open to other users"):
        CollectorHeaders(written(tmp_path / "headers", "a: word\n", 0o644))
    with pytest.raises(EgressError, match="no such file"):
        CollectorHeaders(tmp_path / "nowhere")


def test_a_file_that_a_cluster_mounts_may_be_readable_by_the_group(tmp_path: Path) -> None:
    path = written(tmp_path / "headers", "a: word\n", 0o440)
    assert CollectorHeaders(path, is_mounted=True).current() == {"a": "word"}
    with pytest.raises(UnreadableError, match="open to other users"):
        CollectorHeaders(path)
    with pytest.raises(UnreadableError, match="open to other users"):
        CollectorHeaders(written(tmp_path / "wide", "a: word\n", 0o444), is_mounted=True)


@given(st.binary(max_size=200) | st.text(alphabet="ab: \r\n\0\t", max_size=40).map(str.encode))
def test_no_content_makes_a_header_that_ends_itself(data: bytes) -> None:
    found = parse_headers(data)
    if isinstance(found, dict):
        for name, value in found.items():
            assert not set(f"{name}{value}") & set("\r\n\0")
