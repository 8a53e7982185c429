"""Who asks, by which name, from where."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.ui import LoginSession, RequestGuard
from tests.unit.ui.page_app import app, ask, guarded

TOKEN = "a-token-of-some-length"


def test_a_page_of_this_machine_is_served(tmp_path: Path) -> None:
    """The good twin of every refusal below."""
    site = guarded(tmp_path)
    for host in ("127.0.0.1:8090", "localhost:9", "[::1]:8090", "LOCALHOST"):
        assert ask(site, "/", host=host).status == 200


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "[", "a/localhost"]
)
def test_refuses_a_foreign_host(tmp_path: Path, host: str | None) -> None:
    assert ask(guarded(tmp_path), "/", host=host).status == 421


def test_refuses_two_hosts(tmp_path: Path) -> None:
    assert ask(guarded(tmp_path), "/", [("host", "localhost")]).status == 421


def test_another_name_is_one_that_was_given(tmp_path: Path) -> None:
    assert ask(RequestGuard(app(tmp_path), ["Review.example"]), "/", host="review.example:80").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    ],
)
def test_refuses_what_another_page_asks(tmp_path: Path, headers: dict[str, str]) -> None:
    assert ask(guarded(tmp_path), "/", headers).status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://127.0.0.1:8090"},
        {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    ],
)
def test_its_own_pages_and_links_pass(tmp_path: Path, headers: dict[str, str]) -> None:
    assert ask(guarded(tmp_path), "/", headers).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"])
def test_only_reads(tmp_path: Path, method: str) -> None:
    answer = ask(guarded(tmp_path), "/", method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


def test_refuses_an_endless_address(tmp_path: Path) -> None:
    assert ask(guarded(tmp_path), "/?grep=" + "a" * 9000).status == 414


def test_every_answer_carries_the_policy(tmp_path: Path) -> None:
    site = guarded(tmp_path, LoginSession(TOKEN))
    answers = [ask(site, "/"), ask(site, "/", host="evil.example"), ask(site, "/static/style.css")]
    answers += [ask(site, "/static/none.css"), ask(site, "/", method="POST"), ask(site, "/login?token=no")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"


# The login ------------------------------------------------------------------------------------


def test_nothing_of_the_log_is_shown_without_a_login(tmp_path: Path) -> None:
    site = guarded(tmp_path, LoginSession(TOKEN))
    for path in ("/", "/lines", "/charts", "/chain", "/request?id=r-1", "/none", "/login", "/login?token="):
        answer = ask(site, path)
        assert answer.status == 401
        assert "api.github.com" not in answer.text


def test_the_token_is_taken_for_a_cookie(tmp_path: Path) -> None:
    site = guarded(tmp_path, LoginSession(TOKEN))
    answer = ask(site, f"/login?token={TOKEN}")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].split(";")[0]
    shown = ask(site, "/", {"cookie": cookie})
    assert shown.status == 200
    assert TOKEN not in shown.text + str(shown.headers)


def test_a_wrong_token_gets_no_cookie_and_is_not_repeated(tmp_path: Path) -> None:
    answer = ask(guarded(tmp_path, LoginSession(TOKEN)), f"/login?token={TOKEN}x")
    assert answer.status == 401
    assert "set-cookie" not in answer.headers
    assert TOKEN not in answer.text


def test_what_holds_a_log_is_never_kept(tmp_path: Path) -> None:
    site = guarded(tmp_path)
    assert ask(site, "/").headers["cache-control"] == "no-store"
    assert ask(site, "/static/style.css").headers["cache-control"] == "max-age=86400"
