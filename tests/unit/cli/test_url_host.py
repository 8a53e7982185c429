"""Of a URL that may hold a credential, only a host that is beyond doubt comes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.cli.url_host import Repository, UrlHost, parse_host, parse_repository

SENTINEL = "sentinel"


@pytest.mark.parametrize(
    ("url", "host", "port", "scheme"),
    [
        ("https://index.example.com/simple/", "index.example.com", 443, "https"),
        ("https://INDEX.Example.COM./", "index.example.com", 443, "https"),
        ("HTTPS://index.example.com", "index.example.com", 443, "https"),
        ("https://index.example.com:8443/simple", "index.example.com", 8443, "https"),
        ("http://index.example.com:3141/root", "index.example.com", 3141, "http"),
        ("http://index.example.com", "index.example.com", 80, "http"),
        ("https://bücher.example/", "xn--bcher-kva.example", 443, "https"),
    ],
)
def test_reads_the_host_of_a_plain_url(url: str, host: str, port: int, scheme: str) -> None:
    found = parse_host(url)
    assert found is not None
    assert (found.host, found.port, found.scheme) == (host, port, scheme)
    assert not found.had_user


@pytest.mark.parametrize(
    "user",
    [
        f"user:{SENTINEL}@",
        f"{SENTINEL}@",
        f":{SENTINEL}@",
        f"{SENTINEL}:{SENTINEL}@",
        f"user%40corp:{SENTINEL}@",
        f"user:{SENTINEL}@{SENTINEL}@",
    ],
)
def test_leaves_user_and_password_behind_and_says_so(user: str) -> None:
    found = parse_host(f"https://{user}index.example.com/simple")
    assert found == UrlHost("index.example.com", 443, "https", had_user=True)


@pytest.mark.parametrize(
    "url",
    [
        # The password ends the host too early.
        "https://user.name/sentinel@index.example.com/",
        "https://sentinel.word?more@index.example.com/",
        "https://sentinel.word#more@index.example.com/",
        "https://user:senti/nel@index.example.com/",
        "https://user:senti?nel@index.example.com/",
        # Not a name that a sandbox could be allowed to reach.
        "https://10.0.0.5/simple",
        "https://[2001:db8::1]/simple",
        "http://localhost:3141/",
        "https://devpi/",
        "https://printer.local/",
        # Not a URL.
        "",
        "index.example.com",
        "user:sentinel@index.example.com/simple",
        "file:///srv/wheels",
        "git+https://index.example.com/",
        "https://",
        "https://index.example.com:99999/",
        "https://index.example.com:sentinel/",
        "https://[broken/",
        "https://${HOST}/simple",
        "https://index.example.com/\x1b[2J",
        "https://index.example.com/" + "a" * 3000,
        # A credential where the host should be.
        "https://ghp_0123456789abcdefghijABCDEFGHIJ012345.example/",
    ],
)
def test_gives_nothing_where_there_is_doubt(url: str) -> None:
    assert parse_host(url) is None


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("https://github.com/acme/widgets.git", "github.com", "acme/widgets"),
        ("https://github.com/acme/widgets", "github.com", "acme/widgets"),
        ("https://github.com/acme/widgets/", "github.com", "acme/widgets"),
        (f"https://user:{SENTINEL}@github.com/acme/widgets.git", "github.com", "acme/widgets"),
        ("git@github.com:acme/widgets.git", "github.com", "acme/widgets"),
        ("github.com:acme/widgets.git", "github.com", "acme/widgets"),
        ("ssh://git@github.com:22/acme/widgets.git", "github.com", "acme/widgets"),
        ("git@gitlab.example.com:acme/tools/forge.git", "gitlab.example.com", "acme/tools/forge"),
    ],
)
def test_reads_the_repository_of_a_remote(url: str, host: str, path: str) -> None:
    assert parse_repository(url) == Repository(host, path)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/srv/git/widgets.git",
        "../widgets",
        "file:///srv/git/widgets.git",
        "https://github.com/acme",
        "https://github.com/acme/../widgets",
        "https://github.com/acme/wid gets",
        "https://github.com/acme/*",
        "https://github.com/acme/widgets?token=sentinel",
        "https://github.com/acme/widgets#sentinel",
        "https://github.com/acme/sent@inel",
        "https://github.com/ghp_0123456789abcdefghijABCDEFGHIJ012345/widgets",
        "git@github.com:acme/widgets\n- evil",
        "https://localhost/acme/widgets",
        "https://[broken/acme/widgets",
    ],
)
def test_no_repository_where_there_is_doubt(url: str) -> None:
    assert parse_repository(url) is None


_ODD = st.text(st.sampled_from("ab.:/@?#%\\[]=- \x1b\u202e"), max_size=30)


@given(before=_ODD, after=_ODD)
def test_a_credential_before_the_last_at_sign_never_comes_out(before: str, after: str) -> None:
    """Whatever stands around it: the word is either cut off with the user part, or nothing is read."""
    for url in (
        f"https://{before}sentinel{after}@index.example.com/x",
        f"https://u:{before}sentinel@h.example",
    ):
        assert "sentinel" not in str(parse_host(url))
        assert "sentinel" not in str(parse_repository(url))
