"""The options for the API over TCP, and what keeps `egress up` from starting with them."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from egress.cli.sandboxes.api_options import TOKEN_FILE, ApiOptions, add_options
from egress.errors import ContentError, UsageError


def test_the_usual_port_is_none(tmp_path: Path) -> None:
    assert ApiOptions().settings(tmp_path) is None
    assert ApiOptions().words == ()


def test_the_usual_token_is_in_the_state_folder(tmp_path: Path) -> None:
    found = ApiOptions("127.0.0.1:8700").settings(tmp_path)
    assert found is not None
    assert (found.token_file, found.is_token_named) == (tmp_path / TOKEN_FILE, False)
    assert found.url == "http://127.0.0.1:8700"
    named = ApiOptions("[::1]:8700", tmp_path / "mine").settings(tmp_path)
    assert named is not None
    assert (named.token_file, named.is_token_named) == (tmp_path / "mine", True)
    assert named.url == "http://[::1]:8700"


def test_an_address_is_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--api-listen needs an address and a port"):
        ApiOptions("localhost:8700").settings(tmp_path)


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (ApiOptions(api_token_file=Path("t")), "--api-token-file"),
        (ApiOptions(api_name=("a",)), "--api-name"),
        (ApiOptions(api_tls_cert=Path("c")), "--api-tls-cert"),
        (ApiOptions(api_tls_key=Path("k")), "--api-tls-key"),
        (ApiOptions(api_pools=Path("p")), "--api-pools"),
    ],
)
def test_an_option_without_the_port_is_refused(tmp_path: Path, options: ApiOptions, flag: str) -> None:
    with pytest.raises(UsageError, match=f"{flag} has no effect"):
        options.settings(tmp_path)


def test_beyond_loopback_it_is_refused_without_tls(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs TLS"):
        ApiOptions("192.0.2.1:8700").settings(tmp_path)


def test_pools_are_read_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text("version: 1\npools: { python: { profile: reader } }\n")
    found = ApiOptions("127.0.0.1:8700", api_pools=file).settings(tmp_path)
    assert found is not None
    assert found.pools["python"].profile == "reader"
    file.write_text("version: 1\npools: { python: { profil: reader } }\n")
    with pytest.raises(ContentError, match=r"pools\.yaml:2:"):
        ApiOptions("127.0.0.1:8700", api_pools=file).settings(tmp_path)


def test_another_process_gets_the_same_options() -> None:
    seen: list[ApiOptions] = []

    @click.command()
    @add_options
    def command(api: ApiOptions) -> int:
        seen.append(api)
        return 0

    given = ApiOptions("127.0.0.1:8700", Path("t"), ("a", "b"), Path("c"), Path("k"), Path("p"))
    CliRunner().invoke(command, list(given.words), catch_exceptions=False)
    assert seen == [given]
