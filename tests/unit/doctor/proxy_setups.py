"""Patients for the tests of the doctor: settings, rules and surroundings, in a folder of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from egress.cli.control_client import ask_proxy
from egress.doctor.diagnosis import Diagnosis, Level
from egress.doctor.proxy_under_check import Answer, ProxyUnderCheck
from egress.proxy.clock import SystemClock
from egress.proxy.settings import read
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import Policy
from egress.secrets import CapturedEnvironment
from egress.secrets.source_value import SourceValue

REPLACING = ("SSL_CERT_FILE", "CURL_CA_BUNDLE")
ADDING = ("NODE_EXTRA_CA_CERTS",)
RULES = "version: 1\nhosts:\n  a.example.com: {}\n"


@dataclass(frozen=True, slots=True)
class FixedClock:
    """The clock of the machine, but for the time of day."""

    moment: int

    def now(self) -> int:
        return self.moment

    def now_ns(self) -> int:
        return self.moment * 1_000_000_000

    def monotonic(self) -> float:
        return SystemClock().monotonic()


def policy_of(text: str) -> Policy:
    """The policy that these rules are; a mistake in them is a mistake of the test."""
    loaded = load([RuleText("hosts.yaml", text)], {}, None)
    if loaded.policy is None:
        raise ValueError("; ".join(str(finding) for finding in loaded.findings))
    return loaded.policy


def nobody() -> Answer:
    """What asking finds where no proxy runs: the real thing, at a path where none can be."""
    return ask_proxy("GET", "/status", None, Path("x" * 200))


def patient(
    folder: Path,
    rules: str | None = RULES,
    *,
    environ: Mapping[str, str] | None = None,
    values: Mapping[str, bytes] | None = None,
    now: int | None = None,
    settings: Mapping[str, object] | None = None,
    **flags: object,
) -> ProxyUnderCheck:
    """One with folders below `folder` that are not made yet, listening on a port of the kernel's choice."""
    usual = {"state_dir": folder / "state", "runtime_dir": folder / "run", "listen": "127.0.0.1:0"}
    return ProxyUnderCheck(
        effective=read({**usual, **(settings or {}), **flags}),
        policy=None if rules is None else policy_of(rules),
        captured=CapturedEnvironment(
            {name: SourceValue(raw) for name, raw in (values or {}).items()},
            {"HOME": str(folder), "PATH": "/usr/bin:/bin", **(environ or {})},
        ),
        clock=SystemClock() if now is None else FixedClock(now),
        ask=nobody,
        replacing=REPLACING,
        adding=ADDING,
    )


def answering(found: ProxyUnderCheck, ask_it: Callable[[], Answer]) -> ProxyUnderCheck:
    """The same, beside a proxy that is asked so."""
    return replace(found, ask=ask_it)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user of the machine can get to, as those of tests are not."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder


def by_name(diagnoses: Iterable[Diagnosis]) -> dict[str, Diagnosis]:
    """What was found, each name once."""
    found = list(diagnoses)
    names = {item.name: item for item in found}
    assert len(names) == len(found), found
    return names


def only(diagnoses: Iterable[Diagnosis]) -> Diagnosis:
    """The one thing that was found."""
    (found,) = diagnoses
    return found


def is_content(diagnoses: Iterable[Diagnosis]) -> bool:
    """Whether nothing is wrong or doubtful, and something was looked at."""
    levels = {item.level for item in diagnoses}
    return bool(levels) and levels <= {Level.OK, Level.NOTE}


def needs_care(found: Diagnosis, level: Level, *parts: str) -> None:
    """It is as bad as that, says these things, and says what to do."""
    assert found.level is level, found
    for part in parts:
        assert part in found.fact, found
    assert found.fix, found
    assert "\n" not in found.fact + found.fix, found
