"""Who may look."""

from __future__ import annotations

import pytest

from egress.ui.login import LoginSession

TOKEN = "a-token-of-some-length"


def test_admits_its_token_alone() -> None:
    session = LoginSession(TOKEN)
    assert session.admits(TOKEN)
    assert not any(session.admits(text) for text in ("", TOKEN[:-1], TOKEN + "x", "\udc80"))


def test_knows_its_cookie_among_others() -> None:
    session = LoginSession(TOKEN)
    pair = session.cookie.split(";")[0]
    assert session.knows(pair)
    assert session.knows(f"other=1; {pair}; last=2")
    assert not session.knows(f"{session.name}=")
    assert not session.knows(f"{session.name}={TOKEN}")
    assert not session.knows(pair.replace(session.name, "egress-review-00000000"))


def test_what_other_ports_set_logs_nobody_out() -> None:
    """They share the cookies of this name, and may set as many as a browser keeps."""
    session = LoginSession(TOKEN)
    pair = session.cookie.split(";")[0]
    crowd = [f"other-{number}={'x' * 4000}" for number in range(180)]
    assert session.knows("; ".join([*crowd, pair]))
    assert session.knows("; ".join([f"{session.name}=set-by-another", *crowd, pair, *crowd]))
    assert not session.knows("; ".join(crowd))


def test_the_cookie_tells_the_token_to_nobody() -> None:
    session = LoginSession(TOKEN)
    assert TOKEN not in session.cookie + repr(session)
    assert session.cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")


def test_two_pages_do_not_log_each_other_out() -> None:
    assert LoginSession(TOKEN).name != LoginSession(TOKEN + "2").name


def test_refuses_a_token_that_can_be_guessed() -> None:
    with pytest.raises(ValueError, match="16"):
        LoginSession("short")
