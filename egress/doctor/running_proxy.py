"""Check the proxy that runs with these folders: whether it answers, is ready, and was started from here.

Asked once, over its control socket. The answer comes from another process, perhaps of another version, so its
shape is never assumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from egress import __version__
from egress.ca.authority import Authority
from egress.control_client import CONTROL_SOCKET, NoProxyError
from egress.doctor.diagnosis import Diagnosis, fault, from_error, list_some, note, ok, warning
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.errors import EgressError, UnreadableError
from egress.secrets.daemon_thread import run_in_thread

ANSWER_TIMEOUT: Final = 5.0

_STARTING: Final = 404
"""Answer of a proxy that is still starting."""


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """The status of a running proxy; empty if none runs."""

    code: int = 0
    answer: Mapping[str, object] = field(default_factory=dict)
    problem: EgressError | None = None
    """Cause of a missing answer, if a proxy should be there."""

    @property
    def open_at(self) -> frozenset[str]:
        """Return every address at which it listens."""
        # Every kind counts: a port is taken, whatever protocol the proxy speaks on it.
        keys = ("listeners", "transparent", "dns")
        boxes = [_map(box) for box in _list(self.answer.get("sandboxes"))]
        return frozenset(text for box in boxes for key in keys for text in _texts(box.get(key)))

    @property
    def is_there(self) -> bool:
        """Report whether a proxy runs, even if it does not answer."""
        return bool(self.code) or self.problem is not None

    @property
    def secrets(self) -> frozenset[str] | None:
        """Return the secrets of its rules; None if the status lacks them."""
        names = _map(self.answer.get("rules")).get("secrets")
        return frozenset(_texts(names)) if isinstance(names, list) else None

    def has(self, variable: str) -> bool | None:
        """Report whether it was started with a variable of its rules; None if the status lacks it."""
        said = _map(_map(self.answer.get("rules")).get("variables")).get(variable)
        # A proxy of an older version does not report variables: absence is no answer.
        return None if said not in ("set", "not set") else said == "set"


async def ask(setup: ProxyUnderCheck) -> RunningProxy:
    """Ask the proxy; raises nothing if none is there."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            code, answer = await run_in_thread(setup.ask)
    except TimeoutError:
        # A silent socket is no missing proxy: a hanging process still holds its ports.
        silent = UnreadableError(
            f"the control socket exists, but no proxy answered within {ANSWER_TIMEOUT:g} s",
            "check its log; if it hangs, kill and restart it",
        )
        return RunningProxy(problem=silent)
    except NoProxyError:
        return RunningProxy()
    except EgressError as error:
        return RunningProxy(problem=error)
    return RunningProxy(code, answer)


def check(setup: ProxyUnderCheck, running: RunningProxy, authority: Authority | None) -> Iterator[Diagnosis]:
    """Report the state of the proxy."""
    if running.problem is not None:
        yield from_error("process", running.problem)
    elif not running.code:
        place = setup.values.runtime_dir / CONTROL_SOCKET
        yield note("process", f"not running: no answer at {place}")
    elif running.code == _STARTING:
        yield warning("process", "still starting", "try again in a moment")
    else:
        yield from _process(running.answer)
        yield from _rules(setup, _map(running.answer.get("rules")))
        yield from _sandboxes(setup, running.answer, authority)


def _process(answer: Mapping[str, object]) -> Iterator[Diagnosis]:
    who = f"pid {answer.get('pid')}, version {answer.get('version')}, since {answer.get('since')}"
    if answer.get("ready"):
        yield ok("process", f"ready: {who}")
    else:
        problems = list_some(_texts(answer.get("problems"))) or "no reason given"
        yield fault(
            "process",
            f"not ready: {problems} ({who})",
            "check its log; `egress status` shows the current state",
        )
    # An upgrade replaces the files, but not the process that runs.
    if answer.get("version") != __version__:
        yield warning(
            "version", f"it runs {answer.get('version')}, but {__version__} is installed", "restart it"
        )


def _rules(setup: ProxyUnderCheck, rules: Mapping[str, object]) -> Iterator[Diagnosis]:
    refused, names = (
        _texts(rules.get("refused")),
        list_some(_texts(rules.get("files"))) or "unknown files",
    )
    if refused:
        yield fault(
            "rules",
            f"it refused the current rules, and keeps those of {rules.get('loaded')}: "
            f"{list_some(refused, 1)}",
            "fix the error; saving the file reloads it",
        )
    elif setup.policy is not None and rules.get("digest") != setup.policy.digest:
        yield warning(
            "rules",
            f"it uses other rules than checked above: {names}",
            "reload it, or pass its rules to the doctor with `--rules`",
        )
    elif setup.policy is not None:
        yield ok("rules", f"it uses the rules checked above: {names}, since {rules.get('loaded')}")


def _sandboxes(
    setup: ProxyUnderCheck, answer: Mapping[str, object], authority: Authority | None
) -> Iterator[Diagnosis]:
    for box in map(_map, _list(answer.get("sandboxes"))):
        name = f"sandbox {box.get('name')}"
        # A listener that failed does not make the proxy unready, so it is reported apart.
        for failed in _texts(box.get("failed")):
            yield fault(name, failed, "free the port, then reload it")
        if lacks := _texts(box.get("authority_lacks")):
            yield warning(
                name,
                f"its authority is not permitted to sign for {list_some(lacks)}",
                "its log shows the command to replace it",
            )
        # Only the authority of the sandbox in the settings was opened, so no other can be compared.
        is_kept = box.get("name") == setup.values.sandbox and authority is not None
        if is_kept and authority is not None and box.get("authority") != authority.fingerprint:
            yield warning(name, "it signs with another authority than the one on disk", "restart the proxy")
    for kind, names in _map(answer.get("killed")).items():
        if killed := _texts(names):
            yield note(f"killed {kind}", list_some(killed), "`egress kill --undo` restores access")


# Parsing a status of unknown shape ---------------------------------------------------------------


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [str(item) for item in _list(value)]
