"""`python -m tests.fuzz`: fuzz Egress for a while, and say how to see again what was found.

Without any argument it plays what was kept in the corpus, then so many cases in this process, then the whole
proxy until it has had so many exchanges, with a seed of chance. `--seconds 300` is as much as comes in that
time; `--level proxy --exchanges 200000 --seed 7` the whole proxy alone, with this seed. A finding is printed
with the command that plays its case alone, `--level proxy --seed 7 --case 123`; `--save FOLDER` keeps its
sample.
"""

from __future__ import annotations

import argparse
import logging
import secrets
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.attack.lab.lab import Lab
from tests.attack.lab.network import NoLabError
from tests.attack.lab.proxies import Proxy, running
from tests.fuzz import cases, in_process
from tests.fuzz.hosts import MARK
from tests.fuzz.proxy_run import Run, egress_of, play
from tests.fuzz.sample import Sample, read, written

CASES = 200_000
EXCHANGES = 50_000
"""How much is played where nobody says."""
MOST_SHOWN = 20
CORPUS = Path(__file__).with_name("corpus")
UNMARKED = 900_000_000
"""Where the numbers of samples begin that have none."""


class Findings:
    """What was found, said once for each kind of it."""

    def __init__(self, level: str, seed: int, folder: Path | None) -> None:
        self._level, self._seed, self._folder = level, seed, folder
        self._kinds: Counter[str] = Counter()

    def add(self, kind: str, what: str, case: int | None) -> None:
        self._kinds[kind] += 1
        if self._kinds[kind] > MOST_SHOWN:
            return
        again = "" if case is None else " --corpus" if case >= UNMARKED else f" --case {case}"
        say(f"FOUND {kind}: {what}\n  python -m tests.fuzz --level {self._level} --seed {self._seed}{again}")
        if self._folder is not None and case is not None:
            make = in_process.sample_of if self._level == "inside" else cases.sample_of
            path = self._folder / f"{self._level}-{self._seed}-{case}.json"
            path.write_text(written(make(self._seed, case), what), encoding="utf-8")

    @property
    def total(self) -> int:
        return self._kinds.total()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def fuzz_inside(options: argparse.Namespace, findings: Findings) -> str:
    """The readers, the rules and the relay, in this process; returns what was played."""
    began, counts, case = time.monotonic(), Counter[str](), options.case or 1
    for number, sample in kept("") if options.corpus else ():
        if not sample.target.startswith("proxy."):
            judge(sample, findings, number)
    goes_on = until(options, options.cases)
    while goes_on(case - (options.case or 1)):
        sample = in_process.sample_of(options.seed, case)
        judge(sample, findings, case)
        counts[sample.target] += 1
        case += 1
    spent = time.monotonic() - began
    say(f"inside: {counts.total()} cases in {spent:.0f} s, {counts.total() / spent:.0f} a second")
    say("  " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return f"{counts.total()} cases inside"


def judge(sample: Sample, findings: Findings, case: int) -> None:
    """Check one sample."""
    try:
        in_process.check(sample)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        at = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{sample.target} {type(error).__name__} at {Path(at.filename).name}:{at.lineno}"
        findings.add(kind, str(error)[:300], case)


def fuzz_proxy(options: argparse.Namespace, findings: Findings) -> str:
    """A whole proxy, in networks of its own; returns what was played."""
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as folder,
        Lab(Path(folder)) as lab,
        running(made_in(lab, options)) as proxy,
    ):
        run = Run(lab, proxy)
        began = time.monotonic()
        if options.corpus:
            with ThreadPoolExecutor(1) as pool:
                run.window(kept("proxy."), pool)
        if options.case is not None:
            with ThreadPoolExecutor(1) as pool:
                run.window([(options.case, cases.sample_of(options.seed, options.case))], pool)
        else:
            goes_on = until(options, options.exchanges)
            play(run, options.seed, lambda run: goes_on(run.exchanges), said=progress(began))
        run.finish()
        for trouble in run.troubles:
            findings.add(trouble.kind, trouble.what, trouble.case)
        report(run, proxy, time.monotonic() - began)
        return f"{run.exchanges} exchanges of the proxy"


def made_in(lab: Lab, options: argparse.Namespace) -> Proxy:
    """The proxy that is asked for, not started yet."""
    return lab.make_naive() if options.naive else egress_of(lab)


def kept(target: str) -> list[tuple[int, Sample]]:
    """The samples of the corpus whose target begins like that, each with the number that stands in it."""
    found = []
    for number, path in enumerate(sorted(CORPUS.glob("*.json"))):
        sample, _ = read(path.read_text(encoding="utf-8"))
        mark = MARK.search(b"".join(sample.client).decode("latin-1"))
        if sample.target.startswith(target):
            found.append((int(mark[1]) if mark else UNMARKED + number, sample))
    return found


def progress(began: float) -> Callable[[Run], None]:
    """Say now and then how far it is."""
    next_at = [began + 30]

    def said(run: Run) -> None:
        if time.monotonic() >= next_at[0]:
            next_at[0] = time.monotonic() + 30
            spent = time.monotonic() - began
            rate = run.exchanges / spent
            memory = run.resident[-1] if run.resident else 0
            say(
                f"  {spent:.0f} s: {run.played} cases, {run.exchanges} exchanges ({rate:.0f}/s), "
                f"{memory:.0f} MB, {len(run.troubles)} found"
            )

    return said


def report(run: Run, proxy: Proxy, spent: float) -> None:
    say(
        f"{proxy.name}: {run.played} cases, {run.exchanges} exchanges, {run.marks.total()} requests at hosts "
        f"in {spent:.0f} s, {run.exchanges / spent:.0f} exchanges a second"
    )
    if run.resident:
        first, most, last = run.resident[0], max(run.resident), run.resident[-1]
        rise = max(run.rises[1:], default=0.0)
        said = f"first {first:.0f}, most {most:.0f}, last {last:.0f}, growth {run.growth():+.1f}"
        say(f"  resident MB: {said}, at most {rise:.0f} more at once")
    if run.ledger:
        say("  lines: " + ", ".join(f"{name} {count}" for name, count in run.ledger.events.most_common()))
        say("  codes: " + ", ".join(f"{name} {count}" for name, count in run.ledger.codes.most_common()))


def until(options: argparse.Namespace, most: int | None) -> Callable[[int], bool]:
    """Whether to go on, by what was done so far: up to a number, else for a time."""
    if options.case is not None:
        return lambda done: done < 1
    end = time.monotonic() + (options.seconds or 0) / (2 if options.level == "both" else 1)
    return lambda done: time.monotonic() < end if most is None else done < most


def main() -> int:
    """Run; 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz Egress.")
    parser.add_argument("--level", choices=("inside", "proxy", "both"), default="both")
    parser.add_argument("--seconds", type=float, help="how long, instead of a number")
    parser.add_argument("--cases", type=int, help=f"how many cases inside ({CASES})")
    parser.add_argument("--exchanges", type=int, help=f"how many exchanges of the whole proxy ({EXCHANGES})")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000_000))
    parser.add_argument("--case", type=int, help="play this one alone")
    parser.add_argument("--save", type=Path, help="a folder for samples of what is found")
    parser.add_argument(
        "--corpus",
        action=argparse.BooleanOptionalAction,
        help="play what was kept first (unless --case says)",
    )
    parser.add_argument("--naive", action="store_true", help="fuzz the proxy that must be found out")
    options = parser.parse_args()
    if options.seconds is None:
        options.cases = options.cases or CASES
        options.exchanges = options.exchanges or EXCHANGES
    if options.corpus is None:
        options.corpus = options.case is None and not options.naive
    # Clients that have left are what the hosts of the lab write to all day.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    say(f"seed {options.seed}")
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
    found, played = 0, []
    for level, fuzz in (("inside", fuzz_inside), ("proxy", fuzz_proxy)):
        if options.level in (level, "both"):
            findings = Findings(level, options.seed, options.save)
            played.append(fuzz(options, findings))
            found += findings.total
    total = f"seed {options.seed}: {' and '.join(played)}"
    say(f"{total}: found {found}" if found else f"{total}: found nothing")
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NoLabError as error:
        say(f"no lab can be made here: {error}")
        sys.exit(3)
