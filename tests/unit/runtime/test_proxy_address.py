"""The door is named in variables, options and files of several languages, so its name is plain."""

from __future__ import annotations

import pytest

from egress.errors import UsageError
from egress.runtime.proxy_address import ProxyAddress


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("10.92.0.5", "http://10.92.0.5:3128"),
        ("127.0.0.1", "http://127.0.0.1:3128"),
        ("door.internal", "http://door.internal:3128"),
        ("fd00::5", "http://[fd00::5]:3128"),
    ],
)
def test_the_url_is_what_a_variable_of_a_proxy_says(host: str, url: str) -> None:
    assert ProxyAddress(host).url == url
    assert ProxyAddress(host, 8080).url == url.replace("3128", "8080")


@pytest.mark.parametrize(
    "host",
    [
        *("", " ", "10.92.0.5:3128", "[fd00::5]", "fe80::1%eth0", "user:password@door", "http://door"),
        *("door -Dx=y", 'door"', "door<", "door&amp;", "door;", "door\n", "door\0", "$door", "Door", "dóor"),
        *("10.92.0.05", "0x7f000001", "2130706433", "door/", "a..b", f"{'a' * 64}.b"),
    ],
)
def test_refuses_a_host_that_could_mean_something_else(host: str) -> None:
    with pytest.raises(UsageError, match="neither an address nor a name") as caught:
        ProxyAddress(host)
    assert not host.strip() or host not in caught.value.message


@pytest.mark.parametrize("port", [0, -1, 65536, 10**9])
def test_refuses_a_port_that_is_none(port: int) -> None:
    with pytest.raises(UsageError, match="port"):
        ProxyAddress("10.92.0.5", port)


@pytest.mark.parametrize("port", [1, 65535])
def test_takes_the_first_and_the_last_port(port: int) -> None:
    assert ProxyAddress("10.92.0.5", port).port == port
