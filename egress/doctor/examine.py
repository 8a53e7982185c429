"""All checks in their order: what can wait runs side by side, and one that breaks takes no other with it.

Secrets are asked for first, because whatever is told afterwards is searched for their values: none should be
there, and none gets out. What a check that broke said is not told, since nobody can know what is in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace

from egress.doctor import (
    audit,
    authority,
    clock,
    container_engine,
    folders,
    ipv6,
    listeners,
    open_files,
    roots,
    running_proxy,
    secrets,
    trust_bundles,
    upstreams,
    variables,
    versions,
)
from egress.doctor.diagnosis import Diagnosis, DiagnosisGroup, fault, note
from egress.doctor.proxy_setup import ProxySetup
from egress.doctor.upstreams import ProbeResult
from egress.secrets import Redactor

Check = Callable[[], Awaitable[Iterable[Diagnosis]]]


async def examine(
    patient: ProxySetup,
    beforehand: Mapping[str, Iterable[Diagnosis]],
    tell: Callable[[DiagnosisGroup], None],
    *,
    offline: bool,
) -> tuple[DiagnosisGroup, ...]:
    """Run all checks; `tell` hears of each group as it is done.

    `beforehand` is what is known already, by the name of a group; with the rules, that is all about them.
    """
    checks = Checks(patient, offline=offline)
    redactor = await checks.redactor()
    groups: list[DiagnosisGroup] = []
    for name, look in checks.all().items():
        found = (*beforehand.get(name, ()), *await run_check(name, look))
        groups.append(DiagnosisGroup(name, tuple(redacted(diagnosis, redactor) for diagnosis in found)))
        tell(groups[-1])
    return tuple(groups)


class Checks:
    """The checks of one run, and what several of them are about."""

    def __init__(self, patient: ProxySetup, *, offline: bool) -> None:
        """Begin what takes time. Must be called inside of a running loop."""
        self._patient = patient
        self._resolver = upstreams.resolver_of(patient)
        self._asked = asyncio.create_task(secrets.ask(patient))
        self._running = asyncio.create_task(running_proxy.ask(patient))
        reach = _nothing() if offline else upstreams.probe(patient, self._resolver)
        self._reached = asyncio.create_task(reach)
        self._offline = offline

    def all(self) -> Mapping[str, Check]:
        """Every group by its name, in the order in which they are told."""
        return {
            "versions": self._versions,
            "variables": self._variables,
            "rules": self._rules,
            "secrets": self._secrets,
            "authority": self._authority,
            "roots": self._roots,
            "trust": self._trust,
            "folders": self._folders,
            "audit": self._audit,
            "running": self._proxy,
            "listeners": self._listeners,
            "limits": self._limits,
            "clock": self._clock,
            "upstreams": self._upstreams,
            "engine": self._engine,
        }

    async def redactor(self) -> Redactor:
        """What takes every value that is known of a secret out of a text."""
        await asyncio.wait([self._asked])
        is_broken = self._asked.exception() is not None
        found = secrets.needles(self._patient.captured, () if is_broken else self._asked.result())
        return Redactor(lambda: found)

    async def _versions(self) -> Iterable[Diagnosis]:
        return versions.check()

    async def _variables(self) -> Iterable[Diagnosis]:
        running = await self._running
        open_at, heard_at = listeners.open_at(self._patient, running), listeners.heard_at(running)
        return variables.check(self._patient, open_at, heard_at)

    async def _rules(self) -> Iterable[Diagnosis]:
        return ()

    async def _secrets(self) -> Iterable[Diagnosis]:
        return secrets.check(self._patient, await self._asked, await self._running)

    async def _authority(self) -> Iterable[Diagnosis]:
        return authority.check(self._patient)

    async def _roots(self) -> Iterable[Diagnosis]:
        return roots.check(self._patient)

    async def _trust(self) -> Iterable[Diagnosis]:
        open_at = listeners.open_at(self._patient, await self._running)
        is_led_here = variables.is_led_here(self._patient.environ, open_at)
        return trust_bundles.check(
            self._patient, authority.usable_authority(self._patient), is_led_here=is_led_here
        )

    async def _folders(self) -> Iterable[Diagnosis]:
        return folders.check(self._patient)

    async def _audit(self) -> Iterable[Diagnosis]:
        return audit.check(self._patient)

    async def _proxy(self) -> Iterable[Diagnosis]:
        return running_proxy.check(
            self._patient, await self._running, authority.usable_authority(self._patient)
        )

    async def _listeners(self) -> Iterable[Diagnosis]:
        return await listeners.check(self._patient, await self._running)

    async def _limits(self) -> Iterable[Diagnosis]:
        return open_files.check(self._patient)

    async def _clock(self) -> Iterable[Diagnosis]:
        own = authority.usable_authority(self._patient)
        return clock.check(self._patient, own.not_before if own else None, await self._reached)

    async def _upstreams(self) -> Iterable[Diagnosis]:
        if self._offline:
            return [note("upstreams", "not looked at: --offline")]
        reached = await self._reached
        found = [one.diagnosis for one in reached]
        return [*found, *await ipv6.check(self._patient, self._resolver, reached)]

    async def _engine(self) -> Iterable[Diagnosis]:
        return await container_engine.check(self._patient)


async def _nothing() -> tuple[ProbeResult, ...]:
    return ()


async def run_check(name: str, look: Check) -> tuple[Diagnosis, ...]:
    """What a check found; that it broke, when it did, without what it said."""
    try:
        return tuple(await look())
    except Exception as error:  # noqa: BLE001 - one that breaks must not keep the others from being told
        what = f"this could not be looked at ({type(error).__name__})"
        return (fault(name, what, "run it again with `--debug`, and report it"),)


def redacted(diagnosis: Diagnosis, redactor: Redactor) -> Diagnosis:
    """The same, in which no value of a secret can be read."""
    texts = redactor(None, "", {"name": diagnosis.name, "fact": diagnosis.fact, "fix": diagnosis.fix})
    # What could not be searched comes back without these keys: then nothing of it is told.
    name, fact, fix = (str(texts.get(key, "(not shown)")) for key in ("name", "fact", "fix"))
    return replace(diagnosis, name=name, fact=fact, fix=fix)
