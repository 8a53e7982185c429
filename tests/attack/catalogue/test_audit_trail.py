"""The record: everything that was sent is told once, as it was, and whoever changes it is found.

What hosts really received is held against what was written about it: after wild clients, after kills, and
with a full disk.
"""

from __future__ import annotations

import base64
import functools
import hmac
import itertools
import json
import re
import shutil
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest

from egress.audit.verify import verify
from tests.attack.lab.added_sandbox import boxes, control
from tests.attack.lab.cases import case
from tests.attack.lab.client import Answer, request
from tests.attack.lab.commands import program_in, run_in
from tests.attack.lab.harm import Finding, Harm, must_be_none
from tests.attack.lab.http2 import Http2, head
from tests.attack.lab.lab import Lab
from tests.attack.lab.mixed_traffic import PRIVATE, MixedTraffic
from tests.attack.lab.names import API, HTTP2, PLAIN, SCOPED
from tests.attack.lab.proxies import LISTEN, Egress, Proxy, running
from tests.cli.command import Outcome
from tests.cli.command import egress as egress_command
from tests.proxy.lab.http1 import Request
from tests.proxy.lab.raw_upstream import Cut, Say
from tests.proxy.serve_process import until

pytestmark = pytest.mark.system("ip", "iproute2")

QUOTA = 400
"""KiB that one sandbox may write to the log in a day, in this file."""


@pytest.fixture(scope="module")
def egress(lab: Lab) -> Iterator[Egress]:
    """One that says as much as it can, in words for people, and begins a new file now and then."""
    said = ("--log-level", "debug", "--log-format", "text")
    kept = ("--audit-rotate", "64 KiB", "--audit-quota", f"{QUOTA} KiB")
    with lab.egress("", "--handover", *said, *kept) as proxy:
        yield proxy
        found = lab.at_the_end(proxy)
        verified = proxy.egress("log", "verify")
    must_be_none(found)
    assert verified.status == 0, verified.said


# What was sent, and what is told of it ----------------------------------------------------------

Told = tuple[str, str, str]
"""Host, method and path of a request."""


def received(lab: Lab, proxy: Proxy) -> dict[Told, list[Request]]:
    """All that hosts got from a proxy since the case began."""
    found = defaultdict(list)
    for site in lab.internet.all_sites():
        for each in lab.requests(proxy, site):
            found[site.name, each.method, each.path].append(each)
    return found


def told(proxy: Proxy) -> Counter[Told]:
    """All that a proxy says it has sent, since it was made."""
    if isinstance(proxy, Egress):
        lines = [line for line in proxy.records("exchange") if line["verdict"] != "deny"]
        return Counter((str(line["host"]), str(line["method"]), str(line["path"])) for line in lines)
    heads = re.split(rb"\r?\n\r?\n", (proxy.folder / "naive.log").read_bytes())
    return Counter(_as_told(each.decode("latin-1")) for each in heads if each.strip())


def _as_told(text: str) -> Told:
    start, _, fields = text.partition("\n")
    method, target = [*start.split(" "), "", ""][:2]
    host = re.search(r"^host: *([^:\s]*)", fields, re.MULTILINE | re.IGNORECASE)
    return host[1] if host else "", method, target.partition("?")[0]


@case("S-70", "a line for everything that was sent", Harm.FORGED)
def test_a_line_for_everything_that_was_sent(lab: Lab, proxy: Proxy) -> None:
    """One each, with the secrets that really went along, and the bytes that really moved."""
    known = Counter() if isinstance(proxy, Egress) else told(proxy)
    wild = MixedTraffic(lab, proxy)
    wild.run()
    found = received(lab, proxy)
    if isinstance(proxy, Egress):
        # Two lines more: that of the control, and that of what came last.
        until(lambda: _told_of(proxy, wild.paths[-1]), "the last line")
    lines = told(proxy) - known
    for key, requests in found.items():
        if lines[key] < len(requests):
            raise Finding(Harm.FORGED, f"{key} was sent {len(requests)} times, and told {lines[key]} times")
    assert isinstance(proxy, Egress)
    for line in proxy.records("exchange"):
        if line["path"] in wild.paths:
            _is_true(lab, line, found[_key(line)], wild)


def _told_of(proxy: Egress, path: str) -> bool:
    return any(line["path"] == path for line in proxy.records("exchange"))


def _key(line: Mapping[str, object]) -> Told:
    return str(line["host"]), str(line["method"]), str(line["path"])


def _is_true(lab: Lab, line: Mapping[str, object], sent: Sequence[Request], wild: MixedTraffic) -> None:
    """Hold a line to what the host has seen, and to what the client was answered."""
    was_sent = line["verdict"] != "deny"
    assert len(sent) == was_sent, line
    answer = wild.answers.get((str(line["host"]), str(line["path"])))
    if answer is not None:
        assert line["status"] == answer.status, line
    if not was_sent:
        assert (line["injected"], line["bytes_up"], line["bytes_down"]) == ([], 0, 0), line
        return
    injected = line["injected"]
    assert isinstance(injected, list)
    carried = {each.name for each in lab.secrets.all if _carries(sent[0].raw, each.value)}
    assert {each["secret"] for each in injected} == carried, line
    if sent[0].complete:
        assert line["bytes_up"] == (sent[0].size or len(sent[0].body)), line
    if answer is not None and line["code"] == "rule.allowed" and line["scrubbed"] == {}:
        assert line["bytes_down"] == len(answer.body), line


def _carries(raw: bytes, value: bytes) -> bool:
    forms = (raw, unquote_to_bytes(raw))
    return any(value in form or base64.b64encode(b"me:" + value) in form for form in forms)


@case("S-70", "names and numbers alone", Harm.LOGGED)
def test_names_and_numbers_alone(lab: Lab, proxy: Proxy) -> None:
    """No query, no value of a header, no cookie, and nothing of any body, in all that is written."""
    MixedTraffic(lab, proxy).run()
    for place, data in lab.written(proxy):
        for mark in PRIVATE:
            if mark.encode() in data:
                raise Finding(Harm.LOGGED, f"{mark} in {place}")


# Texts that break out ---------------------------------------------------------------------------

BREAKS = (
    b"\x1b]0;owned\x07", b"\x1b[2J", b"\r\nforged: 1", b"\r", b"\n\n{}", b"\0", b"\x7f", b"\x9b2J",
    b'"},{"seq":1,"', b"\\", b"\\u001b[2J", b"%1b[2J%0d%0a", b"%s%n{0}", b"\xff\xfe",
    "\N{RIGHT-TO-LEFT OVERRIDE}evil".encode(), "\N{LINE SEPARATOR}".encode(), "\N{NEXT LINE}".encode(),
    "\N{ZERO WIDTH SPACE}\N{CYRILLIC SMALL LETTER A}".encode(), b"a" * 20_000,
)  # fmt: skip


@case("S-70", "texts that break out of their field", Harm.FORGED)
def test_texts_that_break_out_of_their_field(lab: Lab, proxy: Proxy) -> None:
    """Wherever a sandbox or a host can write one: no line of its own, no command to a terminal."""
    seen = {place: len(data) for place, data in _logged(proxy).items()}
    for text in BREAKS:
        _say_everywhere(lab, proxy, text)
        for place, data in _logged(proxy).items():
            _holds_together(place, data[seen.get(place, 0) :])
            seen[place] = data.rfind(b"\n") + 1


def _say_everywhere(lab: Lab, proxy: Proxy, text: bytes) -> None:
    host = f"host: {SCOPED}\r\n".encode()
    get = b"GET /repos/acme/x HTTP/1.1\r\n"
    for data in (
        b"GET /repos/acme/" + text + b" HTTP/1.1\r\n" + host,
        b"GET /repos/acme/x?" + text + b" HTTP/1.1\r\n" + host,
        b"G" + text + b"T /repos/acme/x HTTP/1.1\r\n" + host,
        b"GET /repos/acme/x HTTP/1.1" + text + b"\r\n" + host,
        get + host[:-2] + text + b"\r\n",
        get + host + b"user-agent: " + text + b"\r\naccept: " + text + b"\r\n",
        get + host + b"x" + text + b": y\r\n",
    ):
        with proxy.tunnel(SCOPED) as line:
            line.send(data + b"\r\n").finish().everything()
    for data in (
        b"CONNECT " + text + b".test:443 HTTP/1.1\r\n\r\n",
        b"CONNECT " + text + b" HTTP/1.1\r\nhost: " + text + b"\r\n\r\n",
        f"CONNECT {API}:443 HTTP/1.1\r\nproxy-authorization: ".encode() + text + b"\r\n\r\n",
        f"GET http://{PLAIN}/".encode() + text + f" HTTP/1.1\r\nhost: {PLAIN}\r\n\r\n".encode(),
        f"GET http://{PLAIN}".encode() + text + f"/ HTTP/1.1\r\nhost: {PLAIN}\r\n\r\n".encode(),
        text,
    ):
        with proxy.dial() as line:
            line.send(data).finish().everything()
    _say_in_http2(proxy, text.decode("latin-1"))
    _answer_with(lab, proxy, text)


def _say_in_http2(proxy: Proxy, text: str) -> None:
    """Each on a connection of its own: most of them end it."""
    for name in (":path", ":method", ":authority", "x-note"):
        with proxy.tunnel(HTTP2, alpn=("h2",)) as line:
            fields = {**dict(head(HTTP2, "/small")), name: f"/{text}" if name == ":path" else text}
            http2 = Http2(line)
            stream = http2.start(*fields.items())
            line.finish()
            http2.whole(stream)


def _answer_with(lab: Lab, proxy: Proxy, text: bytes) -> None:
    ends = b"content-length: 0\r\n\r\n"
    for data in (
        b"HTTP/1.1 200 " + text + b"\r\n" + ends,
        b"HTTP/1.1 302 Found\r\nlocation: http://x/" + text + b"\r\n" + ends,
        b"HTTP/1.1 200 OK\r\nserver: " + text + b"\r\ncontent-encoding: " + text + b"\r\n" + ends,
        text + b"\r\n\r\n",
    ):
        lab.api.script("/breaks", Say(data), Cut())
        proxy.ask(API, request(API, "/breaks"))


def _logged(proxy: Proxy) -> dict[str, bytes]:
    """Everything that people look at afterwards."""
    names = ("*.jsonl",) if isinstance(proxy, Egress) else ("naive.log",)
    files = {path.name: path.read_bytes() for name in names for path in proxy.folder.rglob(name)}
    return {**files, "its standard streams": "\n".join([*proxy.out, *proxy.err]).encode()}


def _holds_together(place: str, data: bytes) -> None:
    # The last line may be under way.
    data = data[: data.rfind(b"\n") + 1]
    for line in data.decode("latin-1").split("\n"):
        if not (line.isascii() and (line.isprintable() or not line)):
            raise Finding(Harm.FORGED, f"in {place} there is a line {line[:80]!r}")
        if place.endswith(".jsonl") and line:
            assert isinstance(json.loads(line), dict), line
            assert len(line) < 10_000, "a text without end"
        assert "forged: 1" not in line[:20], line


# Kills ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Killed:
    """What is left of a proxy that was killed at work, again and again, and stopped in the end."""

    log: Path
    key: Path
    sent: Counter[Told]
    told: Counter[Told]
    lost: list[dict[str, object]]
    verified: Outcome


@functools.cache
def killed(lab: Lab, kind: type[Proxy]) -> Killed:
    """Once for all cases that look at it: nobody changes what is there."""
    with lab.egress("", "--audit-rotate", "32 KiB") if kind is Egress else lab.naive() as proxy:
        # Also while nobody listens.
        proxy.excused.add(LISTEN)
        _use_and_kill(lab, proxy, 2)
        proxy.signal(signal.SIGTERM)
        proxy.ended()
        sent = Counter({key: len(requests) for key, requests in received(lab, proxy).items()})
        if not isinstance(proxy, Egress):
            return Killed(proxy.folder, proxy.folder, sent, told(proxy), [], Outcome(0, "", ""))
        for finding in lab.at_the_end(proxy):
            raise finding
        verified = proxy.egress("log", "verify")
        log, key = proxy.state / "audit", proxy.state / "audit.key"
        return Killed(log, key, sent, told(proxy), proxy.records("lost"), verified)


def _use_and_kill(lab: Lab, proxy: Proxy, times: int) -> None:
    """Kill it while clients are served, and start it again."""
    is_over = threading.Event()
    with ThreadPoolExecutor() as beside:
        asked = [beside.submit(_ask_on_and_on, proxy, is_over, number) for number in range(3)]
        try:
            for _ in range(times):
                enough = _served(lab) + 60
                until(lambda enough=enough: _served(lab) > enough, "clients to be served")  # type: ignore[misc]
                proxy.kill()
                proxy.start()
        finally:
            is_over.set()
        for each in asked:
            each.result()


def _served(lab: Lab) -> int:
    return len(lab.api.requests) + len(lab.h2.requests)


def _ask_on_and_on(proxy: Proxy, is_over: threading.Event, number: int) -> None:
    """Requests on paths of their own, some in one connection, one client in HTTP/2."""
    numbers = itertools.count()
    while not is_over.wait(0.01):
        host, alpn = (HTTP2, "h2") if number else (API, "http/1.1")
        with suppress(OSError), proxy.tunnel(host, alpn=(alpn,)) as line:
            paths = [f"/on-and-on/{number}-{next(numbers)}" for _ in range(10)]
            if line.failure or line.answer.status != 200:
                continue
            if number:
                http2 = Http2(line)
                streams = [http2.start(*head(HTTP2, path)) for path in paths]
                http2.until(lambda streams=streams: all(stream.complete for stream in streams))  # type: ignore[misc]
            else:
                line.send(b"".join(request(API, path) for path in paths))
                for _ in paths:
                    line.response()


@case("S-53 S-69", "kills at work", Harm.FORGED)
def test_kills_at_work(lab: Lab, proxy: Proxy) -> None:
    """Each request that a host got is in exactly one line: of an exchange, or of one that was lost."""
    found = killed(lab, type(proxy))
    assert sum(found.sent.values()) > 100
    lost = found.sent - found.told
    if proxy.patience and lost:
        raise Finding(Harm.FORGED, f"{sum(lost.values())} requests are in no line")
    assert found.told - found.sent == Counter(), "told, and never sent"
    assert max(found.told.values()) == 1
    wanted = Counter((host, method) for host, method, _ in lost.elements())
    # Some had left, and not arrived.
    assert wanted <= Counter((line["host"], line["method"]) for line in found.lost if line["sent"])
    assert all(line["secrets"] == ["api"] for line in found.lost)
    assert found.verified.status == 0, found.verified.said


# Whoever changes it -----------------------------------------------------------------------------

Change = Callable[[Path], object]
Lines = list[bytes]


def _in_the_last(edit: Callable[[Lines], Lines]) -> Change:
    """A change to the lines of the last file."""
    return lambda log: _edit(max(log.glob("*.jsonl")), edit)


def _in_the_longest(edit: Callable[[Lines], Lines]) -> Change:
    """The same for the file that has most: how many each has is a matter of when it was killed."""
    return lambda log: _edit(max(log.glob("*.jsonl"), key=lambda path: path.stat().st_size), edit)


def _edit(path: Path, edit: Callable[[Lines], Lines]) -> None:
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))


def _of_an_allowed(log: Path) -> None:
    """In whichever file tells of one: where the first kill came early, its file has none."""
    path = next(path for path in sorted(log.glob("*.jsonl")) if b'"allow"' in path.read_bytes())
    path.write_bytes(path.read_bytes().replace(b'"allow"', b'"deny" ', 1))


def _made_anew(log: Path) -> None:
    """All lines sealed by somebody who has read the documentation, and has a key of his own."""
    _sealed(log, b"x" * 32)


def _sealed(log: Path, key: bytes) -> None:
    """The MACs that the documentation says, written into the files."""
    secret, before = hmac.digest(key, b"egress audit line", "sha256"), bytes(32)
    for path in sorted(log.glob("*.jsonl")):
        lines = path.read_bytes().splitlines()
        for number, line in enumerate(lines):
            # A kill may have left the beginning of a line, which counts for nothing.
            if not line.endswith(b"#"):
                body = line[: line.rindex(b',"mac":"')]
                before = hmac.digest(secret, before + body, "sha256")
                lines[number] = b'%s,"mac":"%s"}' % (body, before.hex().encode())
        path.write_bytes(b"".join(line + b"\n" for line in lines))


CHANGES: Mapping[str, Change] = {
    "a word": _of_an_allowed,
    "a line out of the middle": _in_the_longest(lambda lines: [*lines[:5], *lines[6:]]),
    "a line said twice": _in_the_longest(lambda lines: [*lines[:5], lines[5], *lines[5:]]),
    "two lines in each other's place": _in_the_longest(
        lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]]
    ),
    "the last line": _in_the_last(lambda lines: lines[:-1]),
    "the end of the last line": _in_the_last(lambda lines: [*lines[:-1], lines[-1][:-9]]),
    "a line behind the last": _in_the_last(lambda lines: [*lines, lines[-1].replace(b'"seq":', b'"seq":1')]),
    "the first file": lambda log: min(log.glob("*.jsonl")).unlink(),
    "the last file": lambda log: max(log.glob("*.jsonl")).unlink(),
    "the head": lambda log: (log / "head").write_bytes(bytes((log / "head").stat().st_size)),
    "all of it": _made_anew,
}
NO_CHAIN = "nothing in its log depends on anything else"


@case("S-68", "a record that was changed", naive=NO_CHAIN, twin="test_a_record_that_was_left_alone")
def test_a_record_that_was_changed(lab: Lab, proxy: Proxy) -> None:
    """By whoever has all of it but the key: found, and never called sound by a start that comes after it."""
    found = killed(lab, Egress)
    key = found.key.read_bytes()
    for what, change in CHANGES.items():
        log = Path(shutil.copytree(found.log, lab.folder / f"changed {what}"))
        change(log)
        assert not verify(log, key).is_sound, what
    log = Path(shutil.copytree(found.log, lab.folder / "changed twice"))
    for what in ("a word", "the last line"):
        CHANGES[what](log)
    assert _verified(lab, log, found.key).status == 1
    with lab.egress("", "--audit-dir", str(log), "--audit-key", str(found.key)) as own:
        lab.control(own)
        own.signal(signal.SIGTERM)
        assert own.ended() == 0
    outcome = _verified(lab, log, found.key)
    assert outcome.status == 1
    assert "Traceback" not in outcome.said


def _verified(lab: Lab, log: Path, key: Path) -> Outcome:
    return egress_command("log", "verify", "--dir", str(log), "--key", str(key), cwd=lab.folder)


def test_a_record_that_was_left_alone(lab: Lab, egress: Egress) -> None:
    """It is sound, its MACs are those of the documentation, and nobody else writes its files meanwhile."""
    found = killed(lab, Egress)
    log = Path(shutil.copytree(found.log, lab.folder / "left alone"))
    _sealed(log, found.key.read_bytes())
    for path in log.glob("*.jsonl"):
        assert path.read_bytes() == (found.log / path.name).read_bytes()
    assert _verified(lab, log, found.key).status == 0
    words = ("serve", "--rules", "hosts.yaml", "--runtime-dir", "another", "--run-id", "second")
    second = run_in(egress.room, egress.folder, *words)
    assert second.status == 3, "the port is in use; the log is not"
    assert "cannot listen on" in second.err
    audit = egress.state / "audit"
    assert '"run":"second"' in (audit / "chains/0002/audit-000001.jsonl").read_text(encoding="utf-8")
    assert "second" not in {line["run"] for line in egress.records()}
    assert egress.egress("log", "verify").status == 0


# Whoever fills it -------------------------------------------------------------------------------


def _written(proxy: Proxy) -> bytes:
    return b"".join(_logged(proxy).values())


@case("S-81", "a flood of refusals", Harm.STARVED)
def test_a_flood_of_refusals(lab: Lab, proxy: Proxy) -> None:
    """It is counted, to the last one, and takes no room; the neighbours' lines are whole."""
    before, count = _written(proxy).count(b"\n"), 600
    with boxes(lab, proxy, "noisy", "quiet") as (noisy, quiet):
        for number in range(count):
            noisy.say(b"nonsense-%d\r\n\r\n" % number)
            if number % 60 == 0:
                quiet.say(b"nonsense\r\n\r\n")
        if isinstance(proxy, Egress):
            until(lambda: _refusals(proxy, "noisy") == count, "a count of all refusals")
        # The naive proxy is given time for its lines; Egress has counted all of them by now.
        if lab.wait(proxy, lambda: _written(proxy).count(b"\n") - before >= count):
            raise Finding(Harm.STARVED, "every refusal has a line of its own")
    assert isinstance(proxy, Egress)
    lines = [line for line in proxy.records("refusal") if line["sandbox"] == "quiet"]
    assert len(lines) == 10
    assert {line["code"] for line in lines} == {"request.malformed"}


def _refusals(proxy: Egress, sandbox: str) -> int:
    lines = [line for line in proxy.records() if line.get("sandbox") == sandbox]
    folded = sum(int(str(line["count"])) for line in lines if line["event"] == "folded")
    return folded + sum(line["event"] == "refusal" for line in lines)


@case("S-81", "a flood of what is allowed", Harm.STARVED)
def test_a_flood_of_what_is_allowed(lab: Lab, proxy: Proxy) -> None:
    """One that has written its share of the day is stopped, and nobody else."""
    before, asked = len(_written(proxy)), request(API, "/" + "much" * 250)
    with boxes(lab, proxy, "greedy", "modest") as (greedy, modest):
        codes = Counter[str]()
        for _ in range(2 * QUOTA // 50):
            with greedy.tunnel(API) as line:
                if line.answer.status == 200:
                    line.send(asked * 50)
                    answers = [line.response() for _ in range(50)]
                    codes.update(answer.code for answer in answers)
        if set(codes) == {""}:
            raise Finding(Harm.STARVED, "nothing stops one that fills the disk")
        assert set(codes) == {"", "audit.stopped"}, codes
        assert len(_written(proxy)) - before < 1.5 * 1024 * QUOTA
        proxy.expects(greedy.ask(API, request(API, "/small")), (503, "audit.stopped"))
        for other in (modest, proxy):
            assert other.ask(API, request(API, "/small")).status == 200
    assert isinstance(proxy, Egress)
    (stopped,) = [line for line in proxy.records("sandbox.stopped") if line["sandbox"] == "greedy"]
    assert stopped["quota"] == 1024 * QUOTA


# A full disk ------------------------------------------------------------------------------------

TINY = 'mkdir "$1" && mount -t tmpfs -o size=6m none "$1" && shift && exec "$@"'
"""A disk with 4 MiB for what a log needs from its start, and a little more."""


@pytest.mark.system("mount", "mount")
@case("S-67", "a disk that is full", Harm.FORGED)
def test_a_disk_that_is_full(lab: Lab, proxy: Proxy) -> None:
    """Nothing is sent that cannot be told; with room again everything goes on, and nothing is missing."""
    made = lab.make_egress("", "--audit-dir", "disk/log") if isinstance(proxy, Egress) else lab.make_naive()
    made.within = ("sh", "-c", TINY, "sh", str(made.folder / "disk"))
    (made.folder / "naive.log").symlink_to("disk/naive.log")
    with running(made) as own:
        lab.begin(own)
        assert program_in(own.room, own.folder, "cp", "/dev/zero", "disk/ballast").status, "it is full"
        _ask_until_stopped(own)
        if isinstance(own, Egress):
            sent = len(lab.requests(own, lab.api))
            for _ in range(20):
                own.expects(own.ask(API, request(API, "/small")), (503, "audit.stopped"))
            assert len(lab.requests(own, lab.api)) == sent
            assert control(own, "GET", "/readyz")[0] == 503
            assert program_in(own.room, own.folder, "rm", "disk/ballast").status == 0
            until(lambda: own.ask(API, request(API, "/small")).status == 200, "work to go on")
            own.signal(signal.SIGTERM)
            assert own.ended() == 0
            verified = run_in(own.room, own.folder, "log", "verify", "--dir", "disk/log")
            assert verified.status == 0, verified.said
        copied = program_in(own.room, own.folder, "sh", "-c", "rm -f disk/ballast && cp -r disk copy")
        assert copied.status == 0, copied.said
        if len(_told_on(own.folder / "copy")) < len(lab.requests(own, lab.api)):
            raise Finding(Harm.FORGED, "what was sent while the disk was full is in no line")


def _ask_until_stopped(proxy: Proxy) -> None:
    """One request a connection. The naive proxy goes on and on."""
    if proxy.patience:
        for _ in range(20):
            assert proxy.ask(API, request(API, "/small", "x-much: " + "x" * 1000)).status == 200
    else:
        stopped = (503, "audit.stopped")
        until(lambda: _said(proxy.ask(API, request(API, "/small"))) == stopped, "the end of all work")


def _said(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.code


def _told_on(folder: Path) -> list[object]:
    """The requests that a log on a disk tells of."""
    lines = b"".join(path.read_bytes() for path in sorted(folder.rglob("*.jsonl"))).splitlines()
    told_of = [line for line in map(json.loads, lines) if line["event"] == "exchange"]
    heads = [line for path in folder.rglob("naive.log") for line in path.read_bytes().split(b"\r\n\r\n")]
    return [*(line for line in told_of if line["verdict"] != "deny"), *heads]
