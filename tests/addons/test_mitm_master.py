"""The master: our add-ons and no others, on options that open nothing."""

from __future__ import annotations

import pytest
from mitmproxy.net import tls
from mitmproxy.options import Options

from egress.addons.mitm_master import MUST_BE_OFF, build_master, check_options, safe_options
from egress.errors import UsageError


class First:
    pass


class Second:
    pass


async def test_has_the_add_ons_that_it_is_given_and_no_others() -> None:
    """Those of mitmproxy would answer `mitm.it`, relay raw TCP, and pass hosts through."""
    addons = (First(), Second())
    assert tuple(build_master(addons).addons.chain) == addons


def test_the_options_that_it_starts_with_are_fit() -> None:
    check_options(safe_options())


def is_a_flag(name: str) -> bool:
    return isinstance(getattr(Options(), name, None), bool)


@pytest.mark.parametrize("name", [name for name in MUST_BE_OFF if name in Options()])
def test_refuses_to_run_with_an_option_that_opens_something(name: str) -> None:
    options = safe_options()
    options.update_known(**{name: True if is_a_flag(name) else ["."]})  # type: ignore[no-untyped-call]
    with pytest.raises(UsageError, match=name):
        check_options(options)


def test_knows_the_options_that_are_dangerous_by_their_names() -> None:
    """Should mitmproxy rename one, this fails, rather than the check pass in silence."""
    assert {name for name in MUST_BE_OFF if name in Options()} >= {
        "allow_hosts",
        "ignore_hosts",
        "rawtcp",
        "ssl_insecure",
        "tcp_hosts",
        "udp_hosts",
        "upstream_cert",
    }


def test_refuses_to_run_where_keys_would_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "log_master_secret", lambda *_: None)
    with pytest.raises(UsageError, match="keys of TLS"):
        check_options(safe_options())
