"""Check the secrets of the rules: ask each source once, like the proxy, and report its failure.

Secrets of one source share its answer. Reported are the name of a secret, the kind of its source, its
destinations, and the cause of a failure; errors of a source never contain a value. Values are kept for one
purpose: to mask them in all output.
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

from egress.cluster.api_server import cluster_of_pod
from egress.cluster.secret_value import SecretReader
from egress.doctor.diagnosis import Diagnosis, fault, list_some, note, ok, warning
from egress.doctor.file_modes import group_may_enter, may_read, may_write
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.doctor.running_proxy import RunningProxy
from egress.errors import EgressError, UnreadableError, UsageError
from egress.proxy.clock import Clock
from egress.proxy.control.rule_warnings import unscrubbed_secrets
from egress.rules.decide.policy import SecretSpec
from egress.scrub import MIN_SECRET_BYTES, Needles
from egress.secrets import CapturedEnvironment
from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.command import COMMAND_TIMEOUT
from egress.secrets.daemon_thread import run_in_thread
from egress.secrets.source_factory import SourceFactory
from egress.secrets.source_value import SecretSource, SourceValue

SOURCES_TIMEOUT: Final = COMMAND_TIMEOUT + 1.0
"""Seconds for all sources together, which are asked concurrently."""
SLOW_SOURCE_SECONDS: Final = 5.0
"""How long the first request waits for its secret."""

type Key = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class SecretProbe:
    """The result of asking for one secret."""

    spec: SecretSpec
    value: SourceValue | None
    fault: EgressError | None
    seconds: float


async def ask(setup: ProxyUnderCheck) -> tuple[SecretProbe, ...]:
    """Ask every source once, concurrently; raises nothing for a failing source."""
    specs = tuple(setup.policy.secrets.values()) if setup.policy else ()
    captured = setup.captured
    environment = ChildEnvironment(captured.environ, captured.values.values())
    for spec in specs:
        # Hide all of them before the first fetch: a command must not get the variable of a secret.
        if spec.scheme == "env" and spec.reference:
            environment.hide(spec.reference[0])
    cluster = _cluster(setup) if any(spec.scheme == "k8s" for spec in specs) else None
    sources = SourceFactory(captured, environment, setup.values.container, COMMAND_TIMEOUT, cluster)
    asked = {_key(spec): sources.of(spec) for spec in specs}
    answers = await _all(asked, setup.clock)
    return tuple(_named(spec, *answers[_key(spec)]) for spec in specs)


def _cluster(setup: ProxyUnderCheck) -> SecretReader | None:
    try:
        return SecretReader(cluster_of_pod(setup.environ))
    except UsageError:
        # Said by the source itself.
        return None


def needles(captured: CapturedEnvironment, asked: Iterable[SecretProbe]) -> Needles:
    """Return the search for every known value, in any spelling."""
    values = [*captured.values.items(), *((one.spec.name, one.value) for one in asked)]
    found: dict[bytes, tuple[str, ...]] = {}
    for name, value in values:
        for spelling in value.spellings if value else ():
            found[spelling] = (*found.get(spelling, ()), name)
    return Needles(found)


def check(setup: ProxyUnderCheck, asked: Iterable[SecretProbe], running: RunningProxy) -> Iterator[Diagnosis]:
    """Report for each secret whether it is available, and whether its file is protected."""
    if setup.policy is None:
        yield note("secrets", f"not checked until {setup.until}")
        return
    if not setup.policy.secrets:
        yield note("secrets", "the rules name no secrets")
    free = unscrubbed_secrets(setup.policy)
    now = setup.clock.now()
    for one in asked:
        if _is_unset(setup, one.spec):
            yield _unset(one.spec, running)
            continue
        yield _judged(one, now, is_unscrubbed=one.spec.name in free)
        yield from _modes(setup, one.spec)


# Asking -----------------------------------------------------------------------------------------

Answer = tuple[SourceValue | None, EgressError | None, float]


def _key(spec: SecretSpec) -> Key:
    return spec.scheme, spec.reference


async def _all(sources: dict[Key, SecretSource], clock: Clock) -> dict[Key, Answer]:
    tasks = {key: asyncio.create_task(_one(source, clock)) for key, source in sources.items()}
    # asyncio.wait refuses an empty set.
    if tasks:
        await asyncio.wait(tasks.values(), timeout=SOURCES_TIMEOUT)
    silent = UnreadableError(
        f"the source has not answered within {SOURCES_TIMEOUT:g} s",
        "run it by hand, and find out why it is slow",
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
    except Exception as error:  # noqa: BLE001 - its text may hold a value, so it is not shown
        broken = UnreadableError(f"the source failed with {type(error).__name__}", "please report this bug")
        return None, broken, clock.monotonic() - began
    return value, None, clock.monotonic() - began


def _named(
    spec: SecretSpec, value: SourceValue | None, error: EgressError | None, seconds: float
) -> SecretProbe:
    if value is not None:
        try:
            value.secret_named(spec.name)
        except EgressError as refused:
            # Keep the refused value: it must be masked in the output, too.
            return SecretProbe(spec, value, refused, seconds)
    return SecretProbe(spec, value, error, seconds)


# Judging ----------------------------------------------------------------------------------------


def _is_unset(setup: ProxyUnderCheck, spec: SecretSpec) -> bool:
    """Report whether the secret is an unset variable; in a container no variable is a source."""
    if spec.scheme != "env" or not spec.reference or setup.values.container:
        return False
    return spec.reference[0] not in setup.captured.values


def _unset(spec: SecretSpec, running: RunningProxy) -> Diagnosis:
    """Report a variable that is not set here. A running proxy has its own environment, and reports it."""
    name = spec.reference[0]
    fact = f"{_source(spec)} is not set in this shell"
    change = "for a value that changes use `file:` or `command:`"
    if not running.is_there:
        return fault(spec.name, fact, f"set {name} where the proxy is started; {change}")
    # The running proxy may use other rules; its variables then prove little.
    if running.secrets is not None and spec.name not in running.secrets:
        fact = f"{fact}, and the rules of the running proxy have no such secret"
        return fault(spec.name, fact, f"set {name}, and restart the proxy; {change}")
    has = running.has(name)
    if has:
        return ok(spec.name, f"{fact}, but in the running proxy")
    if has is not None:
        fact = f"{fact}, nor in the running proxy"
        return fault(spec.name, fact, f"set {name}, and restart the proxy; {change}")
    return warning(
        spec.name,
        f"{fact}; the running proxy does not report whether it has it",
        f"look for `secret.unavailable` in its log; if present, set {name} and restart the proxy",
    )


def _source(spec: SecretSpec) -> str:
    """Return the kind, and the variable: other references can be long, or reveal too much."""
    return f"`env:{spec.reference[0]}`" if spec.scheme == "env" and spec.reference else f"`{spec.scheme}:`"


def _judged(one: SecretProbe, now: int, *, is_unscrubbed: bool) -> Diagnosis:
    spec, source = one.spec, _source(one.spec)
    if one.fault is not None:
        # Some messages begin with the kind of the source themselves.
        message = one.fault.message.removeprefix(f"`{spec.scheme}:` ")
        return fault(spec.name, f"{source} {message}", one.fault.hint or f"see {spec.place}")
    # Scrubbing a short value would mask ordinary text, so the proxy does not use such a secret.
    if one.value is not None and one.value.is_short and not is_unscrubbed:
        return fault(
            spec.name,
            f"{source} its value is shorter than {MIN_SECRET_BYTES} bytes: it cannot be scrubbed and is "
            f"not used",
            "use a longer secret, or write `scrub: off` where it is injected",
        )
    if spec.expires is not None and now >= spec.expires:
        return warning(spec.name, "expired: no request is sent with it", f"see `expires:` at {spec.place}")
    if one.seconds > SLOW_SOURCE_SECONDS:
        return warning(
            spec.name,
            f"{source} took {one.seconds:.0f} s, but the first request waits only {SLOW_SOURCE_SECONDS:g} s",
            "find out why its source is slow",
        )
    return ok(spec.name, f"{source} answers; for {list_some([str(binding) for binding in spec.bindings], 3)}")


def _modes(setup: ProxyUnderCheck, spec: SecretSpec) -> Iterator[Diagnosis]:
    """Report a secret file that others may access. A container has no other users."""
    if spec.scheme != "file" or not spec.reference or setup.values.container:
        return
    path = _file(spec.reference[0], setup.environ.get("HOME", ""))
    try:
        status = path.stat()
        if not path.is_absolute() or not stat.S_ISREG(status.st_mode):
            # Reported by the source already; closing a folder would be no cure.
            return
        yield from _readers(spec.name, path, status)
        # A writable folder is enough to replace the file, regardless of its own mode.
        if may_write(path.parent):
            yield warning(
                spec.name,
                f"every user can replace {path}",
                f"`chmod o-w {shlex.quote(str(path.parent))}`",
            )
    except OSError:
        # Reported by the source already.
        return


def _readers(name: str, path: Path, status: os.stat_result) -> Iterator[Diagnosis]:
    """Report other users who can read or write a file. A group is often admitted on purpose."""
    mode, is_own = status.st_mode, status.st_uid == os.geteuid()
    text = f"(mode {stat.S_IMODE(mode):04o})"
    # For a file of another user, the proxy may depend on the rights of its group.
    cure = f"`chmod {'600' if is_own else 'g-w,o-rwx'} {shlex.quote(str(path))}`"
    group = f"every user of the group {_group(status.st_gid)}"
    if may_read(path):
        yield warning(name, f"{path} is readable by every user {text}", cure)
    elif not group_may_enter(path, status.st_gid):
        return
    elif mode & stat.S_IWGRP:
        yield warning(name, f"{path} is writable by {group} {text}", cure)
    elif mode & stat.S_IRGRP:
        yield note(name, f"{path} is readable by {group} {text}", f"{cure}, unless intended" * is_own)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return f"with the number {number}"


def _file(reference: str, home: str) -> Path:
    return Path(home) / reference[2:] if reference.startswith("~/") else Path(reference)
