"""An address to listen on is a number and a port; whatever a name resolves to could be open to everybody."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.cli.sandboxes.listen_address import read_listen_address
from egress.errors import UsageError


@pytest.mark.parametrize(
    ("text", "is_local"), [("127.0.0.1:8700", True), ("[::1]:1", True), ("10.0.0.1:65535", False)]
)
def test_an_address_is_read(text: str, is_local: bool) -> None:
    found = read_listen_address("--api-listen", text)
    assert (str(found), found.is_loopback) == (text, is_local)


@pytest.mark.parametrize(
    "text",
    [
        *("", "8700", "127.0.0.1", "127.0.0.1:", "localhost:8700", "127.0.0.1:0", "127.0.0.1:65536"),
        *("::1:8700", "[127.0.0.1:8700", "127.0.0.1:٨٧٠٠", "127.0.0.1:8700\n", "[::1%1]:8700:1", "1.2.3:1"),
    ],
)
def test_anything_else_is_refused_by_the_name_of_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--preview-listen needs an address and a port"):
        read_listen_address("--preview-listen", text)


@given(st.text(st.sampled_from("0123456789.:[]af% \n"), max_size=30))
def test_a_text_is_an_address_in_one_form_or_none(text: str) -> None:
    try:
        found = read_listen_address("--api-listen", text)
    except UsageError:
        return
    assert read_listen_address("--api-listen", str(found)) == found
