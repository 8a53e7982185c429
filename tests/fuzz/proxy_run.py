"""A run against a whole proxy: many cases at once, and after each window of them a look at what they did.

What a client got is looked at case by case. What left the proxy's room, what hosts and name server heard,
and what the proxy recorded is looked at when a window of cases is over; where that is wrong and does not tell
whose doing it is, the cases of the window are tried again one by one.
"""

from __future__ import annotations

import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from bench.proxy.process import resident
from egress.relay.exchange_stream import IDEMPOTENT_METHODS
from egress.rules.compile.load import RuleText, load
from tests.attack.lab import harm, names
from tests.attack.lab.lab import Lab
from tests.attack.lab.proxies import Egress, Proxy
from tests.faults import process_stats
from tests.faults.seeded_random import SeededRandom
from tests.fuzz import cases, in_process
from tests.fuzz.audit_check import AuditCheck, Mark
from tests.fuzz.client import Got, Sandbox
from tests.fuzz.hosts import MARK, Hosts
from tests.fuzz.leak_scan import LeakScan, is_cutting
from tests.fuzz.sample import Sample

WINDOW: Final = 400
WORKERS: Final = 8
MB: Final = 1e6
WAIT_TIMEOUT: Final = 20.0
"""Seconds in which what is on its way has to come."""
MOST_RESIDENT: Final = 250.0
"""MB that a proxy may take, whatever it is sent."""
MOST_AT_ONCE: Final = 50.0
"""MB that its memory may rise to above what it had when a window of cases began."""
MOST_GROWTH: Final = 30.0
"""MB that it may take more, from the second quarter of a run to the last."""
OPTIONS: Final = (
    "--network",
    "--transparent",
    names.DOOR,
    "--dns",
    f"{names.DOOR}:53",
    "--log-format",
    "json",
)
FREE: Final = (53, 80, 443)
_ID: Final = re.compile(rb"\negress-request: ([A-Za-z0-9_-]{12})\r?\n", re.IGNORECASE)
"""The id of an exchange or of a connection, and nothing that a host made up."""
_CODE: Final = re.compile(rb"\negress-denied: ([a-z._]{1,40})\r?\n", re.IGNORECASE)
_BAD_LOG: Final = re.compile(r'"level": ?"(?:error|critical)"|Traceback|\w+Error\b|\w+Exception\b')
_REFUSED: Final = re.compile(r'"event": ?"rules.refused"(?!.*could not be read \()')

Numbered = tuple[int, Sample]


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that does not hold."""

    kind: str
    what: str
    case: int | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def rules(lab: Lab) -> str:
    """The rules of the lab, HTTP/2 for a host that does not speak it, and WebSockets under any mark."""
    text = lab.rules().replace(f"{names.KEYED}: {{allow: all,", f"{names.KEYED}: {{allow: all, http2: true,")
    return text.replace("paths: [/ws], websocket", 'paths: [/ws, "/c*"], websocket')


def egress_of(lab: Lab) -> Egress:
    """An Egress with every way in that there is."""
    return lab.make_egress(rules(lab), *OPTIONS, free=FREE)


class Run:
    """One proxy under fuzz, and everything that is known of it."""

    def __init__(self, lab: Lab, proxy: Proxy) -> None:
        self.lab, self.proxy = lab, proxy
        self.hosts = Hosts(lab)
        self.sandbox = Sandbox(proxy)
        self.detector = LeakScan([(each.name, each.value) for each in lab.secrets.all])
        self.ledger = AuditCheck(proxy.state / "audit") if isinstance(proxy, Egress) else None
        self.troubles: list[Trouble] = []
        self.played = 0
        self.marks: Counter[Mark | None] = Counter()
        """Requests that hosts got."""
        self.resident: list[float] = []
        self.rises: list[float] = []
        """MB that each window has cost at its worst."""
        self._baseline = 0
        self._ids: list[str] = []
        """What clients were told to quote."""
        self._sent: Counter[Mark | None] = Counter()
        """Requests that clients made, whole or not."""
        self._barred: set[int] = set()
        """Cases of which no request may be sent."""
        self._firm: set[Mark | None] = set()
        """Requests that may be sent only once."""
        self._logged = 0

    # Playing

    def window(self, numbered: Sequence[Numbered], pool: ThreadPoolExecutor) -> None:
        """Play these cases side by side, then look."""
        before = len(self.troubles)
        self._begin(numbered)
        for (case, sample), got in zip(numbered, pool.map(self._play, numbered), strict=True):
            self._judge(case, sample, got)
        anonymous = self._look()
        if anonymous and isinstance(self.proxy, Egress) and len(numbered) > 1:
            anonymous = self._narrowed(numbered, anonymous)
        self.troubles[before:] = dict.fromkeys([*self.troubles[before:], *anonymous])
        self.played += len(numbered)

    def sound_rules(self) -> str:
        """The rules that it was started with."""
        return self.proxy.rules.read_text(encoding="utf-8") if isinstance(self.proxy, Egress) else ""

    def disturb(self, chance: SeededRandom) -> None:
        """Put rules in force that cannot be: the last good ones have to stay."""
        if isinstance(self.proxy, Egress):
            text = in_process.damaged_rules(chance, self.proxy.rules.read_text(encoding="utf-8"))
            if load([RuleText("hosts.yaml", text)], {}, 0).policy is None:
                self.proxy.write(text)

    def _begin(self, numbered: Iterable[Numbered]) -> None:
        self.lab.begin(self.proxy)
        for case, sample in numbered:
            self.hosts.expect(case, sample)
            if sample.target == cases.BARRED:
                self._barred.add(case)
        if self.proxy.process is not None:
            process_stats.forget_peak(self.proxy.process.pid)
            self._baseline = process_stats.resident(self.proxy.process.pid)

    def _play(self, numbered: Numbered) -> Got | None:
        try:
            return self.sandbox.play(numbered[1])
        except OSError:
            # Nobody takes connections any more, which `_look` finds out.
            return None

    def _narrowed(self, numbered: Sequence[Numbered], found: list[Trouble]) -> list[Trouble]:
        """The same troubles with their cases, as far as they come again."""
        again: list[Trouble] = []
        for case, sample in numbered:
            self._begin([(case, sample)])
            self._judge(case, sample, self._play((case, sample)))
            again += [Trouble(each.kind, each.what, case) for each in self._look()]
        return again or found

    # Looking

    def _judge(self, case: int, sample: Sample, got: Got | None) -> None:
        """What one client got."""
        if got is None:
            self.troubles.append(Trouble("refused", "the proxy takes no connection", case))
            return
        if got.hangs:
            self.troubles.append(Trouble("silent", "the proxy owes an end and does not come to it", case))
        for view in got.views:
            for leak in self.detector.promised(view, is_cut=is_cutting(sample)):
                self.troubles.append(Trouble("leaked", str(leak), case))
        # What HTTP/2 says of itself is compressed.
        told = b"".join(got.views[-1:] if sample.words[0] == "h2" else got.views[:1])
        if b"internal" in _CODE.findall(told):
            self.troubles.append(Trouble("internal", "the client was told so", case))
        self._ids += [found.decode() for found in _ID.findall(told)]
        for found in MARK.finditer(b"".join(sample.client).decode("latin-1")):
            self._sent[int(found[1]), int(found[2])] += 1

    def _look(self) -> list[Trouble]:
        """What the world saw; returns what cannot be told whose doing it is, and keeps the rest."""
        self.proxy.hang_up()
        found = [Trouble("control", str(error)) for error in self._control()]
        self.lab.settle(self.proxy)
        found += [Trouble(str(each.harm), str(each)) for each in self._harms()]
        heard = Counter(self._marks())
        self.marks += heard
        found += self._records(heard)
        found += self._logs()
        found += self._memory()
        self._forget()
        self.troubles += [each for each in found if each.case is not None]
        return [each for each in found if each.case is None]

    def _control(self) -> list[AssertionError]:
        try:
            self.lab.control(self.proxy)
        except AssertionError as error:
            return [error]
        except OSError as error:
            return [AssertionError(f"the control failed: {error}")]
        return [] if self.proxy.status() is None else [AssertionError("the proxy has ended")]

    def _harms(self) -> Iterable[harm.Finding]:
        lab, every = self.lab, self.lab.secrets.all
        connections = list(lab.internet.connections())
        requests = [each for site in lab.internet.all_sites() for each in site.heard_requests()]
        questions = [(each.name, each.source) for each in list(lab.dns.asked)]
        for each in harm.reached(self.proxy, 0, ()):
            # A datagram may come back when its client has gone; the kernel says so, and not the proxy.
            if not str(each).endswith(f"1 to {names.DOOR} port 0"):
                yield each
        yield from harm.asked(self.proxy, questions)
        yield from harm.stolen(connections, every)
        yield from harm.mixed_up(requests, every)
        yield from harm.clear(self.proxy.wire.carried(), every)

    def _marks(self) -> Iterable[Mark | None]:
        for site in self.lab.internet.all_sites():
            for request in site.heard_requests():
                found = MARK.search(request.target)
                mark = (int(found[1]), int(found[2])) if found else None
                if request.method not in IDEMPOTENT_METHODS or request.body:
                    self._firm.add(mark)
                yield mark

    def _records(self, heard: Counter[Mark | None]) -> Iterable[Trouble]:
        """Every request that a host got has one line that allows it, and every answer one request."""
        if self.ledger is None:
            return
        wrong = self.ledger.turn()
        end = time.monotonic() + WAIT_TIMEOUT
        # Those who were hung up on are recorded in a moment.
        while self._unrecorded(heard) and time.monotonic() < end:
            time.sleep(0.02)
            wrong += self.ledger.turn()
        for mark in heard:
            if mark and mark[0] in self._barred:
                yield Trouble("sent", "a host got a request that the rules deny", mark[0])
        for case, what in wrong:
            yield Trouble("record", what, case)
        for mark in self._unrecorded(heard):
            counts = f"{self.marks[mark]} at hosts, {self.ledger.allowed[mark]} lines"
            yield Trouble("record", f"requests without a line that allows them: {counts}", mark and mark[0])
        for mark in self.ledger.answered - self.marks.keys():
            yield Trouble("record", "an answer is recorded, and no host was asked", mark[0])
        self.ledger.answered.clear()
        for mark in self.ledger.fresh:
            if mark and self.ledger.lines[mark] > self._sent[mark]:
                yield Trouble("record", "more lines than there were requests", mark[0])
        self.ledger.fresh.clear()

    def _unrecorded(self, heard: Iterable[Mark | None]) -> list[Mark | None]:
        allowed = self.ledger.allowed if self.ledger else self.marks
        # What may be sent again, where a connection breaks before the answer, is one exchange in two tries.
        tries = {mark: 1 if mark in self._firm else 2 for mark in heard}
        return [mark for mark in heard if self.marks[mark] > allowed[mark] * tries[mark]]

    def _logs(self) -> Iterable[Trouble]:
        said = [*self.proxy.out, *self.proxy.err]
        fresh, self._logged = said[self._logged :], len(said)
        if self.ledger is not None:
            wrong = (line for line in fresh if _BAD_LOG.search(line) and not _REFUSED.search(line))
            yield from (Trouble("log", line[:500]) for line in wrong)
        if self.detector.holds("\n".join(fresh).encode()):
            yield Trouble("logged", "a secret is in what the proxy printed")

    def _memory(self) -> Iterable[Trouble]:
        if self.proxy.process is None:
            return
        self.resident.append(resident(self.proxy.process.pid))
        self.rises.append((process_stats.peak(self.proxy.process.pid) - self._baseline) / MB)
        if self.resident[-1] > MOST_RESIDENT:
            yield Trouble("memory", f"{self.resident[-1]:.0f} MB resident")
        # What was made for the first time, such as leaves of the authority, comes in the first window.
        if len(self.rises) > 1 and self.rises[-1] > MOST_AT_ONCE:
            yield Trouble("memory", f"it rose by {self.rises[-1]:.0f} MB at once")

    def _forget(self) -> None:
        self.hosts.forget()
        self.lab.dns.asked.clear()
        self.proxy.wire.opened.clear()
        self.proxy.wire.flows.clear()
        self.proxy.clients.clear()

    # The end

    def finish(self) -> None:
        """What can be said only when all is over."""
        if isinstance(self.proxy, Egress) and self.ledger is not None:
            self._finish(self.proxy, self.ledger)
        for path in sorted(self.proxy.folder.rglob("*")):
            inner = path.relative_to(self.proxy.folder).parts
            if path.is_file() and "secrets" not in inner and self.detector.holds(path.read_bytes()):
                self.troubles.append(Trouble("logged", f"a secret is in {path.name}"))

    def _finish(self, proxy: Egress, ledger: AuditCheck) -> None:
        end = time.monotonic() + WAIT_TIMEOUT
        while len(ledger.missing(self._ids)) > ledger.folded and time.monotonic() < end:
            time.sleep(0.1)
            self.troubles += [Trouble("record", what, case) for case, what in ledger.turn()]
        if len(missing := ledger.missing(self._ids)) > ledger.folded:
            what = f"{len(missing)} ids were told and {ledger.folded} refusals counted: {missing[:5]}"
            self.troubles.append(Trouble("record", what))
        verified = proxy.egress("log", "verify")
        if verified.status:
            self.troubles.append(Trouble("record", f"the log is not sound: {verified.said[:500]}"))
        if (growth := self.growth()) > MOST_GROWTH:
            self.troubles.append(Trouble("memory", f"it grew by {growth:.0f} MB"))

    def growth(self) -> float:
        """MB resident in the last quarter of the windows, more than in the second; 0 for a short run."""
        quarter = len(self.resident) // 4
        if quarter < 4:
            return 0.0
        early, late = self.resident[quarter : 2 * quarter], self.resident[-quarter:]
        return statistics.median(late) - statistics.median(early)

    @property
    def exchanges(self) -> int:
        """Exchanges in the record; at a proxy without one, requests that hosts got."""
        return self.ledger.events["exchange"] if self.ledger else self.marks.total()


def play(
    run: Run,
    seed: int,
    goes_on: Callable[[Run], bool],
    *,
    first: int = 1,
    said: Callable[[Run], None] = lambda _: None,
) -> None:
    """Play window after window, for as long as `goes_on` says so; `said` is called after each of them."""
    case, sound = first, run.sound_rules()
    # A proxy that is found out at every turn is looked at more closely, which takes its time.
    size = WINDOW if isinstance(run.proxy, Egress) else WINDOW // 10
    with ThreadPoolExecutor(WORKERS) as pool:
        while goes_on(run):
            if isinstance(run.proxy, Egress):
                run.proxy.write(sound)
                run.disturb(SeededRandom("rules", seed, case))
            run.window([(each, cases.sample_of(seed, each)) for each in range(case, case + size)], pool)
            case += size
            said(run)
