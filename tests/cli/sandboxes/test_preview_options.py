"""The options for previews, and what keeps `egress up` from starting with them."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from egress.cli.sandboxes.preview_options import PreviewOptions, add_options
from egress.errors import UsageError


def test_the_usual_place_is_the_choice_of_the_fleet() -> None:
    assert PreviewOptions().place is None
    assert PreviewOptions().words == ()


def test_a_place_is_named() -> None:
    found = PreviewOptions("127.0.0.1:8800").place
    assert found is not None
    assert found.url == "http://*.localhost:8800"
    secure = PreviewOptions("0.0.0.0:443", "previews.example.com", Path("c"), Path("k")).place
    assert secure is not None
    assert secure.url == "https://*.previews.example.com"


@pytest.mark.parametrize("text", ["", "8800", "localhost:8800", "127.0.0.1:0", "127.0.0.1:65536"])
def test_an_address_is_one(text: str) -> None:
    with pytest.raises(UsageError, match="--preview-listen needs an address and a port"):
        assert PreviewOptions(text).place


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (PreviewOptions(preview_domain="a"), "--preview-domain"),
        (PreviewOptions(preview_tls_cert=Path("c")), "--preview-tls-cert"),
        (PreviewOptions(preview_tls_key=Path("k")), "--preview-tls-key"),
    ],
)
def test_an_option_without_the_address_is_refused(options: PreviewOptions, flag: str) -> None:
    with pytest.raises(UsageError, match=f"{flag} has no effect"):
        assert options.place


def test_beyond_loopback_it_is_refused_without_tls() -> None:
    with pytest.raises(UsageError, match="need TLS"):
        assert PreviewOptions("192.0.2.1:8800", "previews.example.com").place


def test_another_process_gets_the_same_options() -> None:
    seen: list[PreviewOptions] = []

    @click.command()
    @add_options
    def command(previews: PreviewOptions) -> int:
        seen.append(previews)
        return 0

    given = PreviewOptions("127.0.0.1:8800", "a", Path("c"), Path("k"))
    CliRunner().invoke(command, list(given.words), catch_exceptions=False)
    assert seen == [given]
