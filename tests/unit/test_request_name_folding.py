"""Names that some server takes for one another have one spelling in common, and others have not."""

from __future__ import annotations

import pytest

from egress.request_name_folding import fold_cookie, fold_header, fold_parameter


@pytest.mark.parametrize(
    "name", ["x-api-key", "X-Api-Key", "x_api_key", "x.api.key", "X_API-KEY", "x~api|key"]
)
def test_a_header_by_any_mark_and_case(name: str) -> None:
    assert fold_header(name) == "x-api-key"


@pytest.mark.parametrize("mark", "!#$%&'*+.^_`|~-")
def test_any_mark_that_a_header_may_have_is_a_hyphen(mark: str) -> None:
    assert fold_header(f"x{mark}key") == "x-key"


@pytest.mark.parametrize(
    "name",
    ["[key]", "[KEY]", "[[key]]", "]key]", "key]", "[key]more", "[key][more]", " [ key ] ", "key]x[y]"],
)
def test_a_name_within_brackets_is_what_express_and_rack_read(name: str) -> None:
    assert fold_parameter(name) == "key"


@pytest.mark.parametrize("name", ["%u006bey", "%u006Bey", "%U004Bey", "key%u0000", "%u005bkey%u005d"])
def test_a_character_as_asp_net_reads_it(name: str) -> None:
    assert fold_parameter(name) == "key"


@pytest.mark.parametrize(
    "name", ["api_key", "API_KEY", "api.key", "api key", " api-key ", "api_key[]", "api_key[a][b]", "api[key"]
)
def test_a_parameter_as_the_loosest_server_reads_it(name: str) -> None:
    assert fold_parameter(name) == "api-key"


@pytest.mark.parametrize("name", ["key\0", "key\0other", "KEY", "key [0]"])
def test_a_parameter_ends_at_a_nul_and_before_an_index(name: str) -> None:
    assert fold_parameter(name) == "key"


@pytest.mark.parametrize("name", ["%u006", "%u00zzkey", "%ukey", "a%u006bey", "[a[key", "[a][key]"])
def test_what_is_no_such_character_or_stands_elsewhere_is_another_name(name: str) -> None:
    assert fold_parameter(name) != "key"


@pytest.mark.parametrize(
    "name",
    ["Session", "SESSION", " session", "session[a]", "sess%69on", "%53ession", "+session", "%5bsession%5d"],
)
def test_a_cookie_as_the_loosest_server_reads_it(name: str) -> None:
    assert fold_cookie(name) == "session"


@pytest.mark.parametrize("name", ["apikey", "x-api-keys", "api--key2", "[keys]", "ke", ""])
def test_another_name_stays_another(name: str) -> None:
    assert fold_header(name) != "x-api-key"
    assert fold_parameter(name) not in ("api-key", "key")
