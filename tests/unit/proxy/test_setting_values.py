"""The values of settings as types. How each is read from a flag is in test_settings.py."""

from __future__ import annotations

import pytest

from egress.proxy.setting_values import ListenAddress, metrics_listen_address


@pytest.mark.parametrize(
    ("address", "text", "is_loopback"),
    [
        (ListenAddress("127.0.0.1", 1), "127.0.0.1:1", True),
        (ListenAddress("127.8.8.8", 1), "127.8.8.8:1", True),
        (ListenAddress("::1", 1), "[::1]:1", True),
        (ListenAddress("0.0.0.0", 1), "0.0.0.0:1", False),
        (ListenAddress("::", 1), "[::]:1", False),
    ],
)
def test_an_address_is_written_with_its_port(address: ListenAddress, text: str, is_loopback: bool) -> None:
    assert (str(address), address.is_loopback) == (text, is_loopback)


def test_a_value_that_was_read_already_is_left_as_it_is() -> None:
    at = ListenAddress("127.0.0.1", 1)
    assert metrics_listen_address(at) is at
    assert metrics_listen_address("7") == ListenAddress("127.0.0.1", 7)
