"""Which addresses would be listened on. Real ports, free and taken, are in tests/proxy."""

from __future__ import annotations

import socket
from pathlib import Path

from egress.doctor import listeners
from egress.doctor.listeners import ClosedIngress, heard_at, open_at
from egress.doctor.running_proxy import RunningProxy
from egress.proxy.ingress.listener import Listener
from egress.proxy.setting_values import ListenAddress
from tests.unit.doctor.proxy_setups import by_name, is_content, patient

TRANSPARENT = "version: 1\nhosts:\n  a.example.com: {ports: [443, 8443]}\n"


def running(*at: str) -> RunningProxy:
    return RunningProxy(200, {"sandboxes": [{"listeners": list(at)}]})


async def test_a_port_of_the_kernels_choice_is_fine(tmp_path: Path) -> None:
    assert is_content(await listeners.check(patient(tmp_path), RunningProxy()))


async def test_what_the_running_proxy_has_open_is_left_alone(tmp_path: Path) -> None:
    """Every kind of listener is named; none is opened, which would be refused here."""
    found = patient(
        tmp_path,
        TRANSPARENT,
        listen="127.0.0.1:3128",
        transparent="127.0.0.2",
        dns="127.0.0.2:53",
        network=True,
    )
    at = ("127.0.0.1:3128", "127.0.0.2:443", "127.0.0.2:8443", "127.0.0.2:53")
    told = by_name(await listeners.check(found, running(*at)))
    assert list(told) == [
        "proxy 127.0.0.1:3128",
        "transparent 127.0.0.2:443",
        "transparent 127.0.0.2:8443",
        "dns 127.0.0.2:53",
    ]
    assert {item.fact for item in told.values()} == {"used by the running proxy"}


def test_clients_find_it_where_it_runs_and_where_it_would(tmp_path: Path) -> None:
    found = patient(tmp_path, listen="127.0.0.1:3128")
    assert open_at(found, running("127.0.0.1:40000", "[::1]:5", "nonsense", "a.example.com:1")) == (
        ListenAddress("127.0.0.1", 3128),
        ListenAddress("127.0.0.1", 40000),
        ListenAddress("::1", 5),
    )
    assert open_at(patient(tmp_path), RunningProxy()) == ()
    assert heard_at(running("127.0.0.1:40000", "nonsense")) == (ListenAddress("127.0.0.1", 40000),)
    assert heard_at(RunningProxy()) == ()


async def test_what_is_opened_is_closed_at_once() -> None:
    with socket.socket() as sock:
        assert await ClosedIngress().open(Listener("x", "dns-tcp", "default", sock)) == ("0.0.0.0", 0)
        assert sock.fileno() == -1
