"""Names that some server takes for one another have one spelling in common, and others have not."""

from __future__ import annotations

import pytest

from egress import alike


@pytest.mark.parametrize(
    "name", ["x-api-key", "X-Api-Key", "x_api_key", "x.api.key", "X_API-KEY", "x~api|key"]
)
def test_a_header_by_any_mark_and_case(name: str) -> None:
    assert alike.header(name) == "x-api-key"


@pytest.mark.parametrize("mark", "!#$%&'*+.^_`|~-")
def test_any_mark_that_a_header_may_have_is_a_hyphen(mark: str) -> None:
    assert alike.header(f"x{mark}key") == "x-key"


def test_a_name_that_begins_with_a_bracket_is_no_array() -> None:
    assert alike.parameter("[key]") == "-key]"


@pytest.mark.parametrize(
    "name", ["api_key", "API_KEY", "api.key", "api key", " api-key ", "api_key[]", "api_key[a][b]", "api[key"]
)
def test_a_parameter_as_the_loosest_server_reads_it(name: str) -> None:
    assert alike.parameter(name) == "api-key"


@pytest.mark.parametrize("name", ["key\0", "key\0other", "KEY", "key [0]"])
def test_a_parameter_ends_at_a_nul_and_before_an_index(name: str) -> None:
    assert alike.parameter(name) == "key"


@pytest.mark.parametrize("name", ["Session", "SESSION", " session", "session[a]"])
def test_a_cookie_as_the_loosest_server_reads_it(name: str) -> None:
    assert alike.cookie(name) == "session"


@pytest.mark.parametrize("name", ["apikey", "x-api-keys", "api--key2", "[key]", "ke", ""])
def test_another_name_stays_another(name: str) -> None:
    assert alike.header(name) != "x-api-key"
    assert alike.parameter(name) not in ("api-key", "key")
