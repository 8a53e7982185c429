"""A day of three sandboxes, for pictures: made up, decided by real rules, written by the proxy's own sink.

What is in it is what a page should be seen with: every stage with its time, secrets, denials of several
kinds, packages that are cut, an unread tunnel, a canary, rules that nothing hit and one that can do nothing.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

from egress.audit import ConnectionFacts, Durations, ExchangeFacts, Intent, RefusalFacts, Sink, TunnelFacts
from egress.audit.key import read_or_create
from egress.exchange import Destination, ExchangeRecord
from egress.policy.bundled_presets import preset_texts
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.decision import decide, decide_host
from egress.rules.decide.policy import Policy
from egress.types import Head, Identity, InjectHeader, RuleRef, Verdict

RULES = """\
version: 1

secrets:
  git:     { from: "env:GIT_TOKEN", hosts: [git.example.com] }
  tracker: { from: "env:TRACKER_TOKEN", hosts: [tracker.example.com] }

canaries:
  cloud-key: { like: aws, file: ~/.aws/credentials }

hosts:
  git.example.com:
    allow:
      - { id: read,    methods: [GET, HEAD], paths: ["/v1/**"] }
      - { id: user,    methods: [GET],       paths: ["/v1/user"] }
      - { id: propose, methods: [POST],      paths: ["/v1/repos/*/changes"] }
      - { id: release, methods: [POST],      paths: ["/v1/repos/*/releases"] }
    deny:
      - { id: no-keys, paths: ["/v1/user/keys/**"] }
    inject:
      - bearer: git
  tracker.example.com:
    allow:
      - { id: read,   methods: [GET],  paths: ["/v1/**"] }
      - { id: report, methods: [POST], paths: ["/v1/projects/*/issues"] }
    inject:
      - bearer: tracker
  packages.example.com: { methods: [GET, HEAD] }
  "*.docs.example.com": { methods: [GET, HEAD] }
  pinned.example.com:   { intercept: never }
"""
BOXES = (Identity("agent-1", "coding"), Identity("agent-2", "coding"), Identity("checks", "testing"))
DAY = 86_400 * 10**9
COUNT = 2400
ADDRESS = "93.184.216.34"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_CUT_SHARE = 0.06
"""Of the packages that are larger than the rules allow."""
_REPOS = ("site", "engine", "notes")


class Clock:
    """A clock that is set to where the day has got."""

    ns = 0

    def now_ns(self) -> int:
        return self.ns

    def monotonic(self) -> float:
        return self.ns / 1e9


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the log is, its key, and the rules."""

    log: Path
    key: Path
    rules: Path


def write(folder: Path, now: int) -> Kept:
    """A log of the day that ends now, in nanoseconds, and the rules it was decided by."""
    kept = Kept(folder / "audit", folder / "audit.key", folder / "hosts.yaml")
    folder.mkdir(parents=True, exist_ok=True)
    kept.rules.write_text(RULES)
    policy = load([RuleText("hosts.yaml", RULES)], preset_texts()).policy
    if policy is None:
        raise ValueError("the rules of the pictures do not load")
    clock = Clock()
    clock.ns = now - DAY
    sink = Sink.open(kept.log, read_or_create(kept.key, kept.log), clock=clock, in_flight=64)
    sink.event("started", version="0.1.0", policy=policy.digest, files="hosts.yaml")
    writing = _Day(sink, policy, clock, random.Random(7))  # noqa: S311 - a picture
    for number in range(COUNT):
        # Nights are quiet: two thirds of it happen in the second half of the day.
        part = (number / COUNT) ** 0.75
        clock.ns = now - DAY + int(part * (DAY - 90 * 10**9)) + 10**9
        writing.next(part)
        sink.flush()
    sink.close()
    return kept


@dataclass(slots=True)
class _Day:
    """Writes what happens, one thing after the other."""

    sink: Sink
    policy: Policy
    clock: Clock
    chance: random.Random
    connections: int = 0

    def next(self, part: float) -> None:
        """One thing of that part of the day; one of the sandboxes is up to something towards its end."""
        draw, box = self.chance.random(), self.chance.choices(BOXES, (5, 3, 2))[0]
        if 0.62 < part < 0.7 and box is BOXES[1] and draw < 0.6:
            self._odd(box)
        elif draw < 0.02:
            self._tunnel(box)
        elif draw < 0.045:
            self._name(box)
        elif draw < 0.06:
            self._odd(box)
        else:
            self._request(box, *self._usual(box))

    def _usual(self, box: Identity) -> tuple[str, str, str]:
        repo, number = self.chance.choice(_REPOS), self.chance.randrange(1, 400)
        choices = [
            ("GET", "packages.example.com", f"/simple/package-{number % 40}/"),
            ("GET", "git.example.com", f"/v1/repos/{repo}/changes/{number}"),
            ("GET", "git.example.com", "/v1/user"),
            ("GET", "tracker.example.com", f"/v1/projects/{number % 5}/issues"),
            ("GET", "python.docs.example.com", f"/library/page-{number % 30}.html"),
            ("POST", "git.example.com", f"/v1/repos/{repo}/changes"),
            ("POST", "tracker.example.com", f"/v1/projects/{number % 5}/issues"),
        ]
        weights = (9, 1, 0, 1, 3, 0, 0) if box is BOXES[2] else (5, 5, 2, 3, 3, 1, 1)
        return self.chance.choices(choices, weights)[0]

    def _odd(self, box: Identity) -> None:
        tried = [
            ("GET", "git.example.com", "/v1/user/keys"),
            ("DELETE", "git.example.com", f"/v1/repos/{self.chance.choice(_REPOS)}/changes/7"),
            ("POST", "packages.example.com", "/upload"),
            ("GET", "tracker.example.com", "/admin/export"),
        ]
        draw = self.chance.random()
        if draw < 0.3:
            self._name(box)
        elif draw < 0.36:
            self._canary(box)
        else:
            self._request(box, *self.chance.choice(tried))

    def _request(self, box: Identity, method: str, host: str, path: str) -> None:
        decision = decide(self.policy, box, Head(method, "https", host, 443, path), self.clock.ns // 10**9)
        record = self._record(box, method, host, path)
        if not decision.allowed:
            place = decision.rule.place if decision.rule else decision.place
            denied = replace(record, code=decision.code, rule=decision.rule, place=place)
            self.sink.exchange(None, denied, self._facts(box, host, Durations(total=self._some(300))))
            return
        needs = [need for need in decision.effects.needs if isinstance(need, InjectHeader)]
        status = self.chance.choices((200, 304, 404, 500), (92, 4, 3, 1))[0]
        passed = replace(
            record,
            verdict=Verdict.ALLOW,
            code=decision.code,
            rule=decision.rule,
            place=decision.place,
            status=201 if (method, status) == ("POST", 200) else status,
            injected=tuple((need.secret, need.slots[0]) for need in needs),
            replaced=bool(needs),
            scrubbed=((needs[0].secret, 1),) if needs and path == "/v1/user" else (),
            bytes_up=self._some(900),
            bytes_down=self._some(40_000 if host.startswith("packages") else 6_000),
        )
        if host == "packages.example.com" and self.chance.random() < _CUT_SHARE:
            passed = replace(passed, verdict=Verdict.CUT, code="limit.response_body")
        facts = self._facts(box, host, self._durations(is_fresh=self.chance.random() < 0.4))
        secrets = tuple(secret for secret, _ in passed.injected)
        opening = Intent(facts.request, facts.way.connection, box.sandbox, host, 443, method, secrets)
        self.sink.exchange(self.sink.begin(opening), passed, facts)

    def _canary(self, box: Identity) -> None:
        canary = self.policy.canaries[0]
        rule = RuleRef("canaries", canary.name, canary.place)
        record = self._record(box, "POST", "tracker.example.com", "/v1/projects/2/issues")
        seen = replace(record, code="canary.seen", rule=rule, place=canary.place)
        self.sink.exchange(
            None, seen, self._facts(box, "tracker.example.com", Durations(total=self._some(300)))
        )

    def _name(self, box: Identity) -> None:
        host = (
            f"{self.chance.choice(('paste', 'files', 'drop', 'cdn'))}-{self.chance.randrange(30)}.example.org"
        )
        code = decide_host(self.policy, box, host, None, self.clock.ns // 10**9).code
        self.sink.refusal(RefusalFacts(box, box.sandbox, "dns", host, code, policy=self.policy.digest))

    def _tunnel(self, box: Identity) -> None:
        facts = self._facts(box, "pinned.example.com", self._durations(is_fresh=True))
        opening = Intent(facts.request, facts.way.connection, box.sandbox, "pinned.example.com", 443)
        place = decide_host(self.policy, box, "pinned.example.com", 443, 0).place
        tunnel = TunnelFacts(
            box,
            box.sandbox,
            "connect",
            facts.way.connection,
            facts.request,
            "pinned.example.com",
            443,
            "host.allowed",
            address=ADDRESS,
            place=place,
            bytes_up=self._some(9_000),
            bytes_down=self._some(80_000),
            durations=replace(facts.durations, tls=0, secret=0, first_byte=0),
            policy=self.policy.digest,
        )
        self.sink.tunnel(self.sink.begin(opening), tunnel)

    def _record(self, box: Identity, method: str, host: str, path: str) -> ExchangeRecord:
        """A denied one."""
        return ExchangeRecord(
            identity=box,
            destination=Destination("https", host, 443),
            method=method,
            path=path,
            verdict=Verdict.DENY,
            code="",
            rule=None,
            place=None,
            observed=False,
            status=403,
            injected=(),
            replaced=False,
            scrubbed=(),
            bytes_up=0,
            bytes_down=0,
            policy=self.policy.digest,
        )

    def _facts(self, box: Identity, host: str, durations: Durations) -> ExchangeFacts:
        self.connections += 1
        is_dialled = bool(durations.first_byte or durations.connect)
        tls = "TLSv1.3" if is_dialled else ""
        alpn = "http/1.1" if is_dialled else ""
        way = ConnectionFacts(
            self._id(),
            box.sandbox,
            "connect",
            ADDRESS if is_dialled else "",
            host,
            "TLSv1.3",
            tls,
            "http/1.1",
            alpn,
        )
        return ExchangeFacts(way, self._id(), durations)

    def _durations(self, *, is_fresh: bool) -> Durations:
        resolve, connect, tls = (
            (self._some(each) for each in (2_500, 14_000, 31_000)) if is_fresh else (0, 0, 0)
        )
        secret, first = self._some(3_000), self._some(48_000)
        return Durations(
            resolve, connect, tls, secret, first, resolve + connect + tls + secret + first + self._some(9_000)
        )

    def _some(self, middle: int) -> int:
        return max(1, int(middle * self.chance.lognormvariate(0, 0.6)))

    def _id(self) -> str:
        return "".join(self.chance.choices(_LETTERS, k=12))
