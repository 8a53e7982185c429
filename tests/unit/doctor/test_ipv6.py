"""IPv6 is only looked at where it can be told apart. Real connections are made in tests/proxy."""

from __future__ import annotations

from pathlib import Path

from egress.doctor import ipv6
from egress.doctor.diagnosis import Level, fault, ok
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.doctor.upstreams import ProbeResult, resolver_of
from tests.unit.doctor.proxy_setups import patient

ANSWERED = ProbeResult(ok("a.example.com:443", "verified"))
SILENT = ProbeResult(fault("a.example.com:443", "not running: no answer", "look"))


async def looked(found: ProxyUnderCheck, *reached: ProbeResult) -> list[Level]:
    return [item.level for item in await ipv6.check(found, resolver_of(found), reached)]


async def test_hosts_of_one_family_say_nothing(tmp_path: Path) -> None:
    for addresses in ("a.example.com=192.0.2.1", "a.example.com=2001:db8::1"):
        assert await looked(patient(tmp_path, resolve=addresses), ANSWERED) == [Level.NOTE]


async def test_hosts_that_do_not_answer_at_all_say_nothing(tmp_path: Path) -> None:
    found = patient(tmp_path, resolve="a.example.com=192.0.2.1,a.example.com=2001:db8::1")
    assert await looked(found, SILENT) == []
    assert await looked(found) == []
