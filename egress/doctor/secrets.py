"""The secrets of the rules: each source is asked once, as the proxy asks it, and answers or says why not.

Two secrets of one source share its answer. What is told of a secret is its name, the kind of its source,
where it may go, and the reason when it cannot be had; the source's own error never holds a value. The values
are kept until the end for one purpose: to mask them wherever they might turn up after all.
"""

from __future__ import annotations

import asyncio
import grp
import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from egress.doctor.diagnosis import Diagnosis, fault, list_some, note, ok, warning
from egress.doctor.file_modes import group_may_enter, may_read, may_write
from egress.doctor.proxy_setup import ProxySetup
from egress.doctor.running_proxy import RunningProxy
from egress.errors import EgressError, UnreadableError
from egress.proxy.clock import Clock
from egress.proxy.control.rule_warnings import unscrubbed_secrets
from egress.rules.decide.policy import SecretSpec
from egress.scrub import MIN_SECRET_BYTES, Needles
from egress.secrets import CapturedEnvironment
from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.command import COMMAND_TIMEOUT
from egress.secrets.daemon_thread import run_in_thread
from egress.secrets.source import SecretSource, SourceFactory
from egress.secrets.source_value import SourceValue

SOURCES_TIMEOUT: Final = COMMAND_TIMEOUT + 1.0
"""Seconds for all sources together, who are asked at the same time."""
SLOW_SOURCE_SECONDS: Final = 5.0
"""What the first request that needs a secret waits for it."""

type Key = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class SecretProbe:
    """What came of asking for one secret."""

    spec: SecretSpec
    value: SourceValue | None
    fault: EgressError | None
    seconds: float


async def ask(patient: ProxySetup) -> tuple[SecretProbe, ...]:
    """Ask every source once, all at the same time; raises nothing for one that fails."""
    specs = tuple(patient.policy.secrets.values()) if patient.policy else ()
    captured = patient.captured
    surroundings = ChildEnvironment(captured.environ, captured.values.values())
    for spec in specs:
        # All of them before the first look: a command must not get the variable of a secret.
        if spec.scheme == "env" and spec.reference:
            surroundings.hide(spec.reference[0])
    sources = SourceFactory(captured, surroundings, patient.values.container, COMMAND_TIMEOUT)
    asked = {_key(spec): sources.of(spec) for spec in specs}
    answers = await _all(asked, patient.clock)
    return tuple(_named(spec, *answers[_key(spec)]) for spec in specs)


def needles(captured: CapturedEnvironment, asked: Iterable[SecretProbe]) -> Needles:
    """What finds every value that is known, in any spelling."""
    values = [*captured.values.items(), *((one.spec.name, one.value) for one in asked)]
    found: dict[bytes, tuple[str, ...]] = {}
    for name, value in values:
        for spelling in value.spellings if value else ():
            found[spelling] = (*found.get(spelling, ()), name)
    return Needles(found)


def check(patient: ProxySetup, asked: Iterable[SecretProbe], running: RunningProxy) -> Iterator[Diagnosis]:
    """Say of each secret whether it can be had, and whether its file is kept well."""
    if patient.policy is None:
        yield note("secrets", f"not asked for until {patient.until}")
        return
    if not patient.policy.secrets:
        yield note("secrets", "the rules name none")
    free = unscrubbed_secrets(patient.policy)
    now = patient.clock.now()
    for one in asked:
        if _is_unset(patient, one.spec):
            yield _unset(one.spec, running)
            continue
        yield _judged(one, now, is_unscrubbed=one.spec.name in free)
        yield from _modes(patient, one.spec)


# Asking -----------------------------------------------------------------------------------------

Answer = tuple[SourceValue | None, EgressError | None, float]


def _key(spec: SecretSpec) -> Key:
    return spec.scheme, spec.reference


async def _all(sources: dict[Key, SecretSource], clock: Clock) -> dict[Key, Answer]:
    tasks = {key: asyncio.create_task(_one(source, clock)) for key, source in sources.items()}
    if tasks:
        await asyncio.wait(tasks.values(), timeout=SOURCES_TIMEOUT)
    silent = UnreadableError(
        f"the source has not answered within {SOURCES_TIMEOUT:g} s", "ask it by hand, and see why it is slow"
    )
    found: dict[Key, Answer] = {}
    for key, task in tasks.items():
        sources[key].stop()
        found[key] = task.result() if task.done() else (None, silent, SOURCES_TIMEOUT)
        task.cancel()
    return found


async def _one(source: SecretSource, clock: Clock) -> Answer:
    began = clock.monotonic()
    try:
        value = await run_in_thread(source.fetch)
    except EgressError as error:
        return None, error, clock.monotonic() - began
    except Exception as error:  # noqa: BLE001 - its text is not ours, so nobody sees it
        broken = UnreadableError(f"the source failed with {type(error).__name__}", "report this mistake")
        return None, broken, clock.monotonic() - began
    return value, None, clock.monotonic() - began


def _named(
    spec: SecretSpec, value: SourceValue | None, error: EgressError | None, seconds: float
) -> SecretProbe:
    if value is not None:
        try:
            value.secret_named(spec.name)
        except EgressError as refused:
            # The value stays: it is no secret that may be sent, and must not be shown either.
            return SecretProbe(spec, value, refused, seconds)
    return SecretProbe(spec, value, error, seconds)


# Judging ----------------------------------------------------------------------------------------


def _is_unset(patient: ProxySetup, spec: SecretSpec) -> bool:
    """Whether it is a variable that is not here; in a container none is a source, set or not."""
    if spec.scheme != "env" or not spec.reference or patient.values.container:
        return False
    return spec.reference[0] not in patient.captured.values


def _unset(spec: SecretSpec, running: RunningProxy) -> Diagnosis:
    """A variable that is not here. A proxy has those of its own start, and tells which of them are set."""
    name = spec.reference[0]
    fact = f"{_source(spec)} is not set in this shell"
    change = "for a value that changes use `file:` or `command:`"
    if not running.is_there:
        return fault(spec.name, fact, f"set {name} where the proxy is started; {change}")
    if running.secrets is not None and spec.name not in running.secrets:
        fact = f"{fact}, and the rules of the proxy that runs name no such secret"
        return fault(spec.name, fact, f"set {name}, and start the proxy again; {change}")
    has = running.has(name)
    if has:
        return ok(spec.name, f"{fact}, and the proxy that runs was started with it")
    if has is not None:
        fact = f"{fact}, and the proxy that runs was started without it"
        return fault(spec.name, fact, f"set {name}, and start the proxy again; {change}")
    return warning(
        spec.name,
        f"{fact}; whether the proxy that runs has it cannot be seen from here",
        f"look for `secret.unavailable` in its log; where it is, set {name} and start the proxy again",
    )


def _source(spec: SecretSpec) -> str:
    """Its kind, and the variable: what else stands in a reference can be long, or too telling."""
    return f"`env:{spec.reference[0]}`" if spec.scheme == "env" and spec.reference else f"`{spec.scheme}:`"


def _judged(one: SecretProbe, now: int, *, is_unscrubbed: bool) -> Diagnosis:
    spec, source = one.spec, _source(one.spec)
    if one.fault is not None:
        # Some begin with the kind of the source themselves.
        message = one.fault.message.removeprefix(f"`{spec.scheme}:` ")
        return fault(spec.name, f"{source} {message}", one.fault.hint or f"see {spec.place}")
    if one.value is not None and one.value.is_short and not is_unscrubbed:
        return fault(
            spec.name,
            f"{source} its value has fewer than {MIN_SECRET_BYTES} bytes, cannot be scrubbed, and is "
            f"not used",
            "use a longer secret, or write `scrub: off` where it is injected",
        )
    if spec.expires is not None and now >= spec.expires:
        return warning(
            spec.name, "it has ended: no request is sent with it", f"see `expires:` at {spec.place}"
        )
    if one.seconds > SLOW_SOURCE_SECONDS:
        return warning(
            spec.name,
            f"{source} it took {one.seconds:.0f} s, and the first request waits for {SLOW_SOURCE_SECONDS:g}",
            "see why its source is slow",
        )
    return ok(spec.name, f"{source} answers; for {list_some([str(binding) for binding in spec.bindings], 3)}")


def _modes(patient: ProxySetup, spec: SecretSpec) -> Iterator[Diagnosis]:
    """A file that others may read: its owner's choice, says the proxy. In a container there are no others."""
    if spec.scheme != "file" or not spec.reference or patient.values.container:
        return
    path = _file(spec.reference[0], patient.environ.get("HOME", ""))
    try:
        status = path.stat()
        if not path.is_absolute() or not stat.S_ISREG(status.st_mode):
            # Told already, by the source; and closing a folder would be no cure.
            return
        yield from _readers(spec.name, path, status)
        if may_write(path.parent):
            yield warning(
                spec.name,
                f"every user can put another file in the place of {path}",
                f"`chmod o-w {shlex.quote(str(path.parent))}`",
            )
    except OSError:
        # Told already, too.
        return


def _readers(name: str, path: Path, status: os.stat_result) -> Iterator[Diagnosis]:
    """Who else can read a file, or write it. A group is let in on purpose more often than everybody is."""
    mode, is_own = status.st_mode, status.st_uid == os.geteuid()
    text = f"(mode {stat.S_IMODE(mode):04o})"
    # Where it is somebody else's, the proxy may be one of those that its group lets in.
    cure = f"`chmod {'600' if is_own else 'g-w,o-rwx'} {shlex.quote(str(path))}`"
    group = f"every user of the group {_group(status.st_gid)}"
    if may_read(path):
        yield warning(name, f"{path} can be read by every user {text}", cure)
    elif not group_may_enter(path, status.st_gid):
        return
    elif mode & stat.S_IWGRP:
        yield warning(name, f"{path} can be written by {group} {text}", cure)
    elif mode & stat.S_IRGRP:
        yield note(name, f"{path} can be read by {group} {text}", f"{cure}, if that is not meant" * is_own)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return f"with the number {number}"


def _file(reference: str, home: str) -> Path:
    return Path(home) / reference[2:] if reference.startswith("~/") else Path(reference)
