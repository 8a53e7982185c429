"""All checks together: in their order, side by side, and silent about what must not be told."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from egress.doctor import audit, upstreams
from egress.doctor.diagnosis import Diagnosis, DiagnosisGroup, Level, ok
from egress.doctor.examine import examine, redacted, run_check
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.doctor.upstreams import ProbeResult
from egress.scrub import Needles, spellings
from egress.secrets import Redactor
from egress.types import Secret
from tests.cli.command import put
from tests.unit.doctor.proxy_setups import needs_care, only, patient

TOKEN = "tok_A1b2C3d4E5f6G7h8I9j0"
ORDER = [
    "versions",
    "variables",
    "rules",
    "secrets",
    "authority",
    "roots",
    "trust",
    "folders",
    "audit",
    "running",
    "listeners",
    "limits",
    "clock",
    "upstreams",
    "engine",
]
SECRET = (
    'version: 1\nsecrets:\n  s: {{from: "file:{}", hosts: [a.example.com]}}\nhosts:\n  a.example.com: {{}}\n'
)


async def run(
    found: ProxyUnderCheck, *, offline: bool = True, **before: Iterable[Diagnosis]
) -> tuple[DiagnosisGroup, ...]:
    told: list[DiagnosisGroup] = []
    groups = await examine(found, before, told.append, offline=offline)
    assert tuple(told) == groups
    return groups


async def test_groups_are_told_in_their_order_with_what_was_known_before(tmp_path: Path) -> None:
    groups = await run(patient(tmp_path), rules=[ok("hosts.yaml", "yours")])
    assert [group.name for group in groups] == ORDER
    assert groups[2] == DiagnosisGroup("rules", (ok("hosts.yaml", "yours"),))
    assert all(group.diagnoses for group in groups)


async def test_offline_nobody_is_asked_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def reach(*_: object) -> tuple[ProbeResult, ...]:
        asked.append("upstreams")
        return ()

    monkeypatch.setattr(upstreams, "probe", reach)
    groups = {group.name: group for group in await run(patient(tmp_path), offline=True)}
    assert asked == []
    assert "--offline" in only(groups["upstreams"].diagnoses).fact
    await run(patient(tmp_path), offline=False)
    assert asked == ["upstreams"]


async def test_a_check_that_breaks_takes_no_other_with_it_and_is_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: ProxyUnderCheck) -> Iterable[Diagnosis]:
        raise KeyError(f"the token is {TOKEN}")

    async def breaking(*_: object) -> tuple[ProbeResult, ...]:
        raise RuntimeError(TOKEN)

    monkeypatch.setattr(audit, "check", broken)
    monkeypatch.setattr(upstreams, "probe", breaking)
    groups = {group.name: group for group in await run(patient(tmp_path), offline=False)}
    assert list(groups) == ORDER
    needs_care(only(groups["audit"].diagnoses), Level.FAULT, "KeyError")
    needs_care(only(groups["upstreams"].diagnoses), Level.FAULT, "RuntimeError")
    assert TOKEN not in repr(groups)


async def test_a_generator_that_breaks_in_the_middle_is_kept_too() -> None:
    async def look() -> Iterable[Diagnosis]:
        return (ok("x", str(1 // number)) for number in (1, 0))

    needs_care(only(await run_check("some", look)), Level.FAULT, "ZeroDivisionError")


async def test_a_secret_that_turns_up_all_the_same_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(tmp_path / "kept/token", TOKEN)
    leak = [Diagnosis(f"a {TOKEN}", Level.FAULT, f"it is {TOKEN}", f"take {TOKEN}")]
    monkeypatch.setattr(audit, "check", lambda _: leak)
    found = patient(tmp_path, SECRET.format(file))
    groups = {group.name: group for group in await run(found, rules=leak)}
    assert TOKEN not in repr(groups)
    for name in ("audit", "rules"):
        assert only(groups[name].diagnoses).fact.startswith("it is ")
    leak[:] = [Diagnosis("a", Level.FAULT, f"it is {TOKEN}", "do")]
    unknown = {group.name: group for group in await run(patient(tmp_path))}
    assert TOKEN in repr(unknown), "what is no secret is told: the mask is what took it out above"


def test_a_text_that_cannot_be_searched_is_not_told() -> None:
    def broken() -> Needles:
        raise RuntimeError

    found = redacted(Diagnosis("a", Level.FAULT, TOKEN, TOKEN), Redactor(broken))
    assert TOKEN not in repr(found)
    assert found.level is Level.FAULT


def test_an_innocent_text_stays_as_it_is() -> None:
    needles = Needles(dict.fromkeys(spellings(Secret("s", TOKEN.encode())), ("s",)))
    found = Diagnosis("a", Level.OK, "no variable", "")
    assert redacted(found, Redactor(lambda: needles)) == found
