"""Which hosts are asked, and which are named as not looked at. Real ones answer in tests/proxy."""

from __future__ import annotations

from pathlib import Path

from egress.doctor.diagnosis import Level
from egress.doctor.upstreams import probe, resolver_of, targets
from tests.unit.doctor.proxy_setups import by_name, is_content, needs_care, only, patient

RULES = """\
version: 1
hosts:
  a.example.com: {ports: [443, 8443]}
  old.example.com: {http: true}
  "*.static.example.com": {}
  "**.any.example.com": {}
  over.example.com: {expires: 2020-01-01}
networks:
  - {cidr: 192.0.2.0/24, ports: [443]}
"""


def test_every_port_of_every_host_with_a_name_is_a_target(tmp_path: Path) -> None:
    names = [target.name for target in targets(patient(tmp_path, RULES))]
    assert names == ["a.example.com:443", "a.example.com:8443", "old.example.com:443", "old.example.com:80"]


def test_only_hosts_of_the_profile_are_targets(tmp_path: Path) -> None:
    text = "version: 1\nhosts: {a.example.com: {}, b.example.com: {}}\n"
    text += "profiles: {small: {hosts: [a.example.com]}}\n"
    found = patient(tmp_path, text, profile="small")
    assert [target.name for target in targets(found)] == ["a.example.com:443"]


async def test_what_names_no_host_is_told_as_not_checkable(tmp_path: Path) -> None:
    text = "version: 1\nhosts:\n  '*.static.example.com': {}\n  over.example.com: {expires: 2020-01-01}\n"
    found = patient(tmp_path, text)
    told = by_name(one.diagnosis for one in await probe(found, resolver_of(found)))
    assert is_content(told.values())
    assert "*.static.example.com" in told["patterns"].fact
    assert "not checked" in told["over.example.com:443"].fact


async def test_networks_are_told_as_not_checkable(tmp_path: Path) -> None:
    text = RULES.partition("hosts:")[0] + "networks:" + RULES.partition("networks:")[2]
    found = patient(tmp_path, text)
    told = only([one.diagnosis for one in await probe(found, resolver_of(found))])
    assert told.level is Level.NOTE
    assert "192.0.2.0/24" in told.fact


async def test_without_rules_there_is_nobody_to_ask(tmp_path: Path) -> None:
    found = patient(tmp_path, None)
    assert only([one.diagnosis for one in await probe(found, resolver_of(found))]).level is Level.NOTE


async def test_without_roots_nobody_can_be_verified(tmp_path: Path) -> None:
    found = patient(tmp_path, upstream_ca=str(tmp_path / "none.pem"))
    told = only([one.diagnosis for one in await probe(found, resolver_of(found))])
    needs_care(told, Level.FAULT, "none.pem")


async def test_addresses_are_those_of_the_settings(tmp_path: Path) -> None:
    found = patient(
        tmp_path, resolve="a.example.com=192.0.2.1,a.example.com=2001:db8::1,b.example.com=192.0.2.2"
    )
    resolver = resolver_of(found)
    assert await resolver.resolve("a.example.com") == ("192.0.2.1", "2001:db8::1")
    assert await resolver.resolve("b.example.com") == ("192.0.2.2",)
