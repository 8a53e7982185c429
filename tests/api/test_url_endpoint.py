"""Addresses of an API at a port: those that are refused, and what is never shown of one."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egress.api.url_endpoint import UrlEndpoint
from egress.errors import UnreadableError, UsageError

TOKEN = "canary-Token_0123456789-0123456789-abcdef"


@pytest.mark.parametrize(
    ("url", "host", "text"),
    [
        ("https://boxes.example.com", "boxes.example.com:443", "https://boxes.example.com:443"),
        ("https://192.0.2.1:8700/", "192.0.2.1:8700", "https://192.0.2.1:8700"),
        ("https://[2001:db8::1]:8700", "[2001:db8::1]:8700", "https://[2001:db8::1]:8700"),
        ("http://127.0.0.1:8700", "127.0.0.1:8700", "http://127.0.0.1:8700"),
        ("http://[::1]", "[::1]:80", "http://[::1]:80"),
        ("http://localhost:8700", "localhost:8700", "http://localhost:8700"),
    ],
)
def test_an_address_is_read(url: str, host: str, text: str) -> None:
    found = UrlEndpoint.read(url, TOKEN)
    assert (found.host, str(found)) == (host, text)
    assert found.headers == (("authorization", f"Bearer {TOKEN}"),)
    assert (found.tls is None) == url.startswith("http:")


@pytest.mark.parametrize(
    "url",
    [
        *("", "boxes.example.com", "https://", "https://a:0", "https://a:65536", "https://a:1:2", "ftp://a"),
        *("https://user:secret@a", "https://a/v1", "https://a?x", "https://a#x", "https://a\n", " https://a"),
        *("https://a b", "https://::1", "https://[a]", "HTTPS://a", "https://é.example", "https://a:٨"),
    ],
)
def test_another_text_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        UrlEndpoint.read(url, TOKEN)
    assert "secret" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("host", ["192.0.2.1", "boxes.example.com", "localhost.example.com", "[2001:db8::1]"])
def test_no_token_leaves_the_machine_in_clear_text(host: str) -> None:
    with pytest.raises(UsageError, match="open to the network"):
        UrlEndpoint.read(f"http://{host}:8700", TOKEN)


@pytest.mark.parametrize("token", ["", "a b", "a\n", "a\r\nx: y", "é", "a" * 1025])
def test_a_token_is_one_word(token: str) -> None:
    with pytest.raises(UsageError, match="not a token") as caught:
        UrlEndpoint.read("https://a", token)
    assert not token or token not in str(caught.value)


def test_the_token_is_not_shown() -> None:
    found = UrlEndpoint.read("https://boxes.example.com", TOKEN)
    assert TOKEN not in f"{found} {found!r}"


def test_the_server_has_to_prove_its_name() -> None:
    context = UrlEndpoint.read("https://boxes.example.com", TOKEN).tls
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("content", [None, "", "no PEM"])
def test_authorities_that_are_none_are_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UnreadableError, match="cannot be used"):
        UrlEndpoint.read("https://a", TOKEN, file)


@settings(max_examples=100)
@given(st.text(max_size=40))
def test_whatever_is_written_it_is_an_address_or_refused(text: str) -> None:
    try:
        found = UrlEndpoint.read(f"http://{text}", TOKEN)
    except UsageError:
        return
    assert not set(found.host) & set("@/?# \r\n")
