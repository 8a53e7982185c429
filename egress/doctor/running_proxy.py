"""The proxy that runs with these folders: whether it answers, is ready, and is what was started here.

It is asked once, over its control socket. The answer comes from another process, perhaps of another version:
nothing about its shape is taken for granted.
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
from egress.doctor.proxy_setup import ProxySetup
from egress.errors import EgressError, UnreadableError
from egress.secrets.daemon_thread import run_in_thread

ANSWER_TIMEOUT: Final = 5.0

_STARTING: Final = 404
"""What a proxy answers that has not got so far."""


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """What a running proxy said; nothing where none runs."""

    code: int = 0
    answer: Mapping[str, object] = field(default_factory=dict)
    problem: EgressError | None = None
    """Why it gave no answer, where there is one that should."""

    @property
    def open_at(self) -> frozenset[str]:
        """Every address at which it listens."""
        keys = ("listeners", "transparent", "dns")
        boxes = [_map(box) for box in _list(self.answer.get("sandboxes"))]
        return frozenset(text for box in boxes for key in keys for text in _texts(box.get(key)))

    @property
    def is_there(self) -> bool:
        """Whether one runs, be it that it does not answer."""
        return bool(self.code) or self.problem is not None

    @property
    def secrets(self) -> frozenset[str] | None:
        """The secrets that its rules name; None where it does not say."""
        names = _map(self.answer.get("rules")).get("secrets")
        return frozenset(_texts(names)) if isinstance(names, list) else None

    def has(self, variable: str) -> bool | None:
        """Whether it was started with a variable that its rules name; None where it does not say."""
        said = _map(_map(self.answer.get("rules")).get("variables")).get(variable)
        return None if said not in ("set", "not set") else said == "set"


async def ask(patient: ProxySetup) -> RunningProxy:
    """Ask the proxy; raises nothing when none is there."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            code, answer = await run_in_thread(patient.ask)
    except TimeoutError:
        silent = UnreadableError(
            f"a proxy has its control socket here, and has not answered within {ANSWER_TIMEOUT:g} s",
            "look into its log; if it hangs, end it and start it again",
        )
        return RunningProxy(problem=silent)
    except NoProxyError:
        return RunningProxy()
    except EgressError as error:
        return RunningProxy(problem=error)
    return RunningProxy(code, answer)


def check(patient: ProxySetup, running: RunningProxy, authority: Authority | None) -> Iterator[Diagnosis]:
    """Say how the proxy is."""
    if running.problem is not None:
        yield from_error("process", running.problem)
    elif not running.code:
        place = patient.values.runtime_dir / CONTROL_SOCKET
        yield note("process", f"none is running: nobody answers at {place}")
    elif running.code == _STARTING:
        yield warning("process", "it is still starting", "ask again in a moment")
    else:
        yield from _process(running.answer)
        yield from _rules(patient, _map(running.answer.get("rules")))
        yield from _sandboxes(patient, running.answer, authority)


def _process(answer: Mapping[str, object]) -> Iterator[Diagnosis]:
    who = f"pid {answer.get('pid')}, version {answer.get('version')}, since {answer.get('since')}"
    if answer.get("ready"):
        yield ok("process", f"ready: {who}")
    else:
        problems = list_some(_texts(answer.get("problems"))) or "it does not say why"
        yield fault(
            "process", f"not ready: {problems} ({who})", "look into its log; `egress status` asks again"
        )
    if answer.get("version") != __version__:
        yield warning(
            "version", f"it runs {answer.get('version')}, and {__version__} is installed", "start it again"
        )


def _rules(patient: ProxySetup, rules: Mapping[str, object]) -> Iterator[Diagnosis]:
    refused, names = (
        _texts(rules.get("refused")),
        list_some(_texts(rules.get("files"))) or "it does not say which",
    )
    if refused:
        yield fault(
            "rules",
            f"it refused them as they are now, and keeps those of {rules.get('loaded')}: "
            f"{list_some(refused, 1)}",
            "put right what is told; it reads them again when they are saved",
        )
    elif patient.policy is not None and rules.get("digest") != patient.policy.digest:
        yield warning(
            "rules",
            f"it goes by others than looked at above: {names}",
            "reload it, or name its rules to the doctor with `--rules`",
        )
    elif patient.policy is not None:
        yield ok(
            "rules", f"it goes by the same rules as looked at above: {names}, since {rules.get('loaded')}"
        )


def _sandboxes(
    patient: ProxySetup, answer: Mapping[str, object], authority: Authority | None
) -> Iterator[Diagnosis]:
    for box in map(_map, _list(answer.get("sandboxes"))):
        name = f"sandbox {box.get('name')}"
        for failed in _texts(box.get("failed")):
            yield fault(name, failed, "free the port, then reload it")
        if lacks := _texts(box.get("authority_lacks")):
            yield warning(
                name, f"its authority may not sign for {list_some(lacks)}", "its log has the command for it"
            )
        is_kept = box.get("name") == patient.values.sandbox and authority is not None
        if is_kept and authority is not None and box.get("authority") != authority.fingerprint:
            yield warning(
                name, "it signs with another authority than the one on the disk", "start the proxy again"
            )
    for kind, names in _map(answer.get("killed")).items():
        if killed := _texts(names):
            yield note(f"killed {kind}", list_some(killed), "`egress kill --undo` gives it back")


# Of the answer, whose shape is not known ---------------------------------------------------------


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [str(item) for item in _list(value)]
