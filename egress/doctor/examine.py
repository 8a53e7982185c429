"""Run all checks in order: slow ones concurrently, and a failing check does not stop the others.

Secrets are asked first, because all later output is searched for their values: no value should be in it, and
none gets out. The message of a crashed check is not reported, since its content is unknown.
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
    sandbox_users,
    secrets,
    trust_bundles,
    upstreams,
    variables,
    versions,
)
from egress.doctor.diagnosis import Diagnosis, DiagnosisGroup, fault, note
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.doctor.upstreams import ProbeResult
from egress.secrets import Redactor

Check = Callable[[], Awaitable[Iterable[Diagnosis]]]


async def examine(
    setup: ProxyUnderCheck,
    beforehand: Mapping[str, Iterable[Diagnosis]],
    tell: Callable[[DiagnosisGroup], None],
    *,
    offline: bool,
) -> tuple[DiagnosisGroup, ...]:
    """Run all checks; `tell` is called with each finished group.

    `beforehand` holds known results by group name; the results about the rules are all passed this way.
    """
    checks = Checks(setup, offline=offline)
    # Before any output: a fact can quote an error, and the error might quote a value.
    redactor = await checks.redactor()
    groups: list[DiagnosisGroup] = []
    for name, look in checks.all().items():
        found = (*beforehand.get(name, ()), *await run_check(name, look))
        groups.append(DiagnosisGroup(name, tuple(redacted(diagnosis, redactor) for diagnosis in found)))
        tell(groups[-1])
    return tuple(groups)


class Checks:
    """The checks of one run, and the results they share."""

    def __init__(self, setup: ProxyUnderCheck, *, offline: bool) -> None:
        """Start the slow parts. Must be called inside a running loop."""
        self._setup = setup
        self._resolver = upstreams.resolver_of(setup)
        # Tasks and not calls: sources, proxy and upstreams are slow, and independent of each other.
        self._asked = asyncio.create_task(secrets.ask(setup))
        self._running = asyncio.create_task(running_proxy.ask(setup))
        reach = _nothing() if offline else upstreams.probe(setup, self._resolver)
        self._reached = asyncio.create_task(reach)
        self._offline = offline

    def all(self) -> Mapping[str, Check]:
        """Return every group by name, in the order of the report."""
        return {
            # Versions first: a flawed package can explain many later faults.
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
        """Return a processor that masks every known value of a secret."""
        await asyncio.wait([self._asked])
        # A crash must not unmask the report: values from the environment are still known.
        is_broken = self._asked.exception() is not None
        found = secrets.needles(self._setup.captured, () if is_broken else self._asked.result())
        return Redactor(lambda: found)

    async def _versions(self) -> Iterable[Diagnosis]:
        return versions.check()

    async def _variables(self) -> Iterable[Diagnosis]:
        running = await self._running
        open_at, heard_at = listeners.open_at(self._setup, running), listeners.heard_at(running)
        return variables.check(self._setup, open_at, heard_at)

    async def _rules(self) -> Iterable[Diagnosis]:
        # Results come through `beforehand`: without having read the rules, no check could start.
        return ()

    async def _secrets(self) -> Iterable[Diagnosis]:
        return secrets.check(self._setup, await self._asked, await self._running)

    async def _authority(self) -> Iterable[Diagnosis]:
        return authority.check(self._setup)

    async def _roots(self) -> Iterable[Diagnosis]:
        return roots.check(self._setup)

    async def _trust(self) -> Iterable[Diagnosis]:
        open_at = listeners.open_at(self._setup, await self._running)
        is_led_here = variables.is_led_here(self._setup.environ, open_at)
        return trust_bundles.check(
            self._setup, authority.usable_authority(self._setup), is_led_here=is_led_here
        )

    async def _folders(self) -> Iterable[Diagnosis]:
        return folders.check(self._setup)

    async def _audit(self) -> Iterable[Diagnosis]:
        return audit.check(self._setup)

    async def _proxy(self) -> Iterable[Diagnosis]:
        return running_proxy.check(self._setup, await self._running, authority.usable_authority(self._setup))

    async def _listeners(self) -> Iterable[Diagnosis]:
        return await listeners.check(self._setup, await self._running)

    async def _limits(self) -> Iterable[Diagnosis]:
        return open_files.check(self._setup)

    async def _clock(self) -> Iterable[Diagnosis]:
        own = authority.usable_authority(self._setup)
        return clock.check(self._setup, own.not_before if own else None, await self._reached)

    async def _upstreams(self) -> Iterable[Diagnosis]:
        # Skipped checks are reported, so that a reader knows what was not checked.
        if self._offline:
            return [note("upstreams", "skipped: --offline")]
        reached = await self._reached
        found = [one.diagnosis for one in reached]
        return [*found, *await ipv6.check(self._setup, self._resolver, reached)]

    async def _engine(self) -> Iterable[Diagnosis]:
        return (*await container_engine.check(self._setup), *sandbox_users.check())


async def _nothing() -> tuple[ProbeResult, ...]:
    return ()


async def run_check(name: str, look: Check) -> tuple[Diagnosis, ...]:
    """Return the results of a check; if it crashes, a fault without its message."""
    try:
        return tuple(await look())
    except Exception as error:  # noqa: BLE001 - a crash must not hide the results of other checks
        fact = f"the check failed ({type(error).__name__})"
        return (fault(name, fact, "run it again with `--debug`, and report the bug"),)


def redacted(diagnosis: Diagnosis, redactor: Redactor) -> Diagnosis:
    """Return the diagnosis with all values of secrets masked."""
    texts = redactor(None, "", {"name": diagnosis.name, "fact": diagnosis.fact, "fix": diagnosis.fix})
    # Texts that could not be searched are missing from the result, and are not reported.
    name, fact, fix = (str(texts.get(key, "(not shown)")) for key in ("name", "fact", "fix"))
    return replace(diagnosis, name=name, fact=fact, fix=fix)
