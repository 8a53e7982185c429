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
    engine,
    families,
    folders,
    limits,
    listeners,
    roots,
    running,
    secrets,
    trust,
    upstreams,
    variables,
    versions,
)
from egress.doctor.diagnosis import Diagnosis, Group, fault, note
from egress.doctor.patient import Patient
from egress.doctor.reached import Reached
from egress.secrets import Redactor

Look = Callable[[], Awaitable[Iterable[Diagnosis]]]


async def examine(
    patient: Patient,
    beforehand: Mapping[str, Iterable[Diagnosis]],
    tell: Callable[[Group], None],
    *,
    offline: bool,
) -> tuple[Group, ...]:
    """Run all checks; `tell` hears of each group as it is done.

    `beforehand` is what is known already, by the name of a group; with the rules, that is all about them.
    """
    checks = Checks(patient, offline=offline)
    redactor = await checks.redactor()
    groups: list[Group] = []
    for name, look in checks.all().items():
        found = (*beforehand.get(name, ()), *await kept(name, look))
        groups.append(Group(name, tuple(cleaned(diagnosis, redactor) for diagnosis in found)))
        tell(groups[-1])
    return tuple(groups)


class Checks:
    """The checks of one run, and what several of them are about."""

    def __init__(self, patient: Patient, *, offline: bool) -> None:
        """Begin what takes time. Must be called inside of a running loop."""
        self._patient = patient
        self._resolver = upstreams.resolver_of(patient)
        self._asked = asyncio.create_task(secrets.ask(patient))
        self._running = asyncio.create_task(running.ask(patient))
        reach = _nothing() if offline else upstreams.reach(patient, self._resolver)
        self._reached = asyncio.create_task(reach)
        self._offline = offline

    def all(self) -> Mapping[str, Look]:
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
        return versions.look()

    async def _variables(self) -> Iterable[Diagnosis]:
        running = await self._running
        open_at, heard_at = listeners.open_at(self._patient, running), listeners.heard_at(running)
        return variables.look(self._patient, open_at, heard_at)

    async def _rules(self) -> Iterable[Diagnosis]:
        return ()

    async def _secrets(self) -> Iterable[Diagnosis]:
        return secrets.look(self._patient, await self._asked, await self._running)

    async def _authority(self) -> Iterable[Diagnosis]:
        return authority.look(self._patient)

    async def _roots(self) -> Iterable[Diagnosis]:
        return roots.look(self._patient)

    async def _trust(self) -> Iterable[Diagnosis]:
        open_at = listeners.open_at(self._patient, await self._running)
        is_led_here = variables.is_led_here(self._patient.environ, open_at)
        return trust.look(self._patient, authority.of(self._patient), is_led_here=is_led_here)

    async def _folders(self) -> Iterable[Diagnosis]:
        return folders.look(self._patient)

    async def _audit(self) -> Iterable[Diagnosis]:
        return audit.look(self._patient)

    async def _proxy(self) -> Iterable[Diagnosis]:
        return running.look(self._patient, await self._running, authority.of(self._patient))

    async def _listeners(self) -> Iterable[Diagnosis]:
        return await listeners.look(self._patient, await self._running)

    async def _limits(self) -> Iterable[Diagnosis]:
        return limits.look(self._patient)

    async def _clock(self) -> Iterable[Diagnosis]:
        own = authority.of(self._patient)
        return clock.look(self._patient, own.not_before if own else None, await self._reached)

    async def _upstreams(self) -> Iterable[Diagnosis]:
        if self._offline:
            return [note("upstreams", "not looked at: --offline")]
        reached = await self._reached
        found = [one.diagnosis for one in reached]
        return [*found, *await families.look(self._patient, self._resolver, reached)]

    async def _engine(self) -> Iterable[Diagnosis]:
        return await engine.look(self._patient)


async def _nothing() -> tuple[Reached, ...]:
    return ()


async def kept(name: str, look: Look) -> tuple[Diagnosis, ...]:
    """What a check found; that it broke, when it did, without what it said."""
    try:
        return tuple(await look())
    except Exception as error:  # noqa: BLE001 - one that breaks must not keep the others from being told
        what = f"this could not be looked at ({type(error).__name__})"
        return (fault(name, what, "run it again with `--debug`, and report it"),)


def cleaned(diagnosis: Diagnosis, redactor: Redactor) -> Diagnosis:
    """The same, in which no value of a secret can be read."""
    texts = redactor(None, "", {"name": diagnosis.name, "fact": diagnosis.fact, "fix": diagnosis.fix})
    # What could not be searched comes back without these keys: then nothing of it is told.
    name, fact, fix = (str(texts.get(key, "(not shown)")) for key in ("name", "fact", "fix"))
    return replace(diagnosis, name=name, fact=fact, fix=fix)
