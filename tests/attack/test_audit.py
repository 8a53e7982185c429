"""Against the audit log: a full disk, changed files, kills, a clock that jumps, and a flood.

Cases S-67 to S-71 and S-81. Each attack has its control: the same log, left alone, is whole.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from egress.audit import AuditStoppedError, Intent, verify_log
from egress.exchange import Destination, Exchange, NeedSecrets, Request, Response, SendRequest
from egress.rules.compile.load import RuleText, load
from egress.scrub import Needles
from egress.types import Identity, Secret
from tests.unit.audit.chained_log import opened_log, sound_log, write_chains
from tests.unit.audit.sample import (
    DENIED,
    FACTS,
    KEY,
    NAME,
    OPENING,
    RECORD,
    Clock,
    abandon,
    check,
    files,
    full_at,
    kinds,
    moment,
    opened,
    read,
    sound,
)

ROOT = Path(__file__).parents[2]

# A full disk ------------------------------------------------------------------------------------

FILLS_A_DISK = """
import sys
from pathlib import Path
from tests.unit.audit.sample import FACTS, OPENING, RECORD, Clock, kinds, opened, sound

disk = Path(sys.argv[1])
ballast = disk / "ballast"
ballast.write_bytes(bytes(64 * 1024))
clock = Clock()
sink = opened(disk / "log", clock, drop=int(sys.argv[2]))
written = 0
while not sink.trouble and written < 5000:
    sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    sink.flush()
    written += 1
first = (sink.trouble, sink.may_work("agent-1"), sink.may_work("agent-2"))
clock.seconds += 1
second = (sink.may_work("agent-1"), sink.may_work("agent-2"))
if int(sys.argv[2]):
    for _ in range(10):
        sink.exchange(sink.begin(OPENING), RECORD, FACTS)
ballast.unlink()
clock.seconds += 1
third = (sink.may_work("agent-1"), sink.may_work("agent-2"))
sink.close()
sound(disk / "log")
print(repr((first, second, third, kinds(disk / "log").count("exchange") - written, kinds(disk / "log")[-2:])))
"""


def on_a_tiny_disk(folder: Path, *arguments: str) -> str:
    """Run the script above in a mount namespace of its own, on a disk of 256 KiB."""
    folder.mkdir()
    inside = 'mount -t tmpfs -o size=256k none "$1" && exec "$2" -c "$3" "$1" "$4"'
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", "--mount", *rights, "sh", "-c", inside, "sh", str(folder), sys.executable]
    done = subprocess.run(
        [*command, FILLS_A_DISK, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.defpath, "PYTHONPATH": str(ROOT)},
    )
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this user may not mount a disk here")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.system("mount", "mount")
@pytest.mark.system("unshare", "util-linux")
def test_s67_a_full_disk_stops_the_sandbox_then_everybody_and_nothing_is_lost(tmp_path: Path) -> None:
    """S-67, default: nothing is let through that cannot be recorded; work goes on when there is space."""
    stopped, everybody, again = ("ENOSPC", False, True), (False, False), (True, True)
    assert on_a_tiny_disk(tmp_path / "disk", "0") == repr(
        (stopped, everybody, again, 0, ["exchange", "resumed"])
    )


@pytest.mark.system("mount", "mount")
@pytest.mark.system("unshare", "util-linux")
def test_s67_by_setting_a_full_disk_drops_lines_and_counts_them(tmp_path: Path) -> None:
    """S-67, `drop`: the sandboxes work on, and how much was dropped is told."""
    works = (True, True)
    assert on_a_tiny_disk(tmp_path / "disk", "1") == repr(
        (("ENOSPC", True, True), works, works, 0, ["resumed", "dropped"])
    )


def test_s67_where_nothing_can_be_mounted_a_limit_of_the_kernel_shows_the_same(tmp_path: Path) -> None:
    clock = Clock()
    sink = opened(tmp_path, clock)
    ticket = sink.begin(OPENING)
    with full_at(500):
        sink.exchange(ticket, RECORD, FACTS)
        sink.flush()
        with pytest.raises(AuditStoppedError):
            sink.begin(OPENING)
        assert sink.may_work("agent-2")
        clock.seconds += 1
        assert not sink.may_work("agent-2")
    clock.seconds += 1
    assert sink.may_work("agent-1")
    sink.close()
    assert kinds(tmp_path) == ["exchange", "resumed"]
    sound(tmp_path)


# Changed files ----------------------------------------------------------------------------------


def log(folder: Path) -> Path:
    sink = opened(folder, rotate_at=1500)
    for number in range(8):
        sink.exchange(None, replace(DENIED, path=f"/{number}"), FACTS)
        sink.flush()
    sink.close()
    assert len(files(folder)) > 3
    return folder


def _alter(folder: Path) -> None:
    files(folder)[1].write_bytes(files(folder)[1].read_bytes().replace(b'"deny"', b'"allo"', 1))


def _delete(folder: Path) -> None:
    lines = files(folder)[1].read_bytes().splitlines(keepends=True)
    files(folder)[1].write_bytes(b"".join(lines[1:]))


def _cut(folder: Path) -> None:
    lines = files(folder)[-1].read_bytes().splitlines(keepends=True)
    files(folder)[-1].write_bytes(b"".join(lines[:-1]))


def _cut_and_forge(folder: Path) -> None:
    """Put a line of the same number and form in the place of the last one."""
    lines = files(folder)[-1].read_bytes().splitlines(keepends=True)
    files(folder)[-1].write_bytes(b"".join([*lines[:-1], lines[-1].replace(b"2026", b"2025")]))


def _old_file(folder: Path) -> None:
    files(folder)[-1].write_bytes(files(folder)[-2].read_bytes())


@pytest.mark.parametrize("harm", [_alter, _delete, _cut, _cut_and_forge, _old_file])
def test_s68_whoever_changes_a_line_without_the_key_is_found(
    harm: Callable[[Path], None], tmp_path: Path
) -> None:
    """S-68: altered, deleted, the last ones cut off, or put in the place of others."""
    folder = log(tmp_path)
    sound(folder)
    harm(folder)
    assert not check(folder).is_sound


@pytest.mark.parametrize("harm", [_alter, _delete, _cut, _cut_and_forge, _old_file])
def test_s68_a_restart_does_not_wash_it_away(harm: Callable[[Path], None], tmp_path: Path) -> None:
    """S-68: the writer has the key, but it does not vouch for what it did not write."""
    folder = log(tmp_path)
    harm(folder)
    for _ in range(3):
        opened(folder).close()
        assert not check(folder).is_sound


def test_s68_an_old_head_does_not_hide_a_cut_that_it_does_not_know_of(tmp_path: Path) -> None:
    """S-68: the head of an earlier moment with a log cut shorter than that is still a cut."""
    sink = opened(tmp_path)
    sink.refusal(NAME)
    sink.flush()
    sink.refusal(NAME)
    sink.flush()
    old = moment(tmp_path).files["head"]
    sink.refusal(NAME)
    sink.close()
    (tmp_path / "head").write_bytes(old)
    sound(tmp_path)
    _cut(tmp_path)
    _cut(tmp_path)
    assert not check(tmp_path).is_sound


# Kills and second writers -----------------------------------------------------------------------


def test_s69_a_line_cut_by_a_kill_leaves_one_explicit_gap(tmp_path: Path) -> None:
    """S-69: what is there of the line stays, the chain holds, and the exchange is told as lost."""
    sink = opened(tmp_path)
    sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    with full_at(300):
        sink.flush()
    abandon(sink)
    before = files(tmp_path)[0].read_bytes()
    assert len(before) == 300
    opened(tmp_path).close()
    assert files(tmp_path)[0].read_bytes().startswith(before + b"#\n")
    assert kinds(tmp_path) == ["gap", "lost"]
    sound(tmp_path)
    opened(tmp_path).close()
    assert kinds(tmp_path) == ["gap", "lost"]


def test_s69_two_writers_cannot_happen(tmp_path: Path) -> None:
    """S-69: also from another process."""
    code = "import sys\nfrom pathlib import Path\nfrom tests.unit.audit.sample import opened\n"
    code += "opened(Path(sys.argv[1])).close()"
    command = [sys.executable, "-c", code, str(tmp_path)]
    sink = opened(tmp_path)
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode != 0
    assert "another process writes to the audit log" in second.stderr
    sink.close()
    assert subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False).returncode == 0


def test_s69_each_of_several_proxies_writes_a_chain_of_its_own(tmp_path: Path) -> None:
    """S-69: the proxies of several runs, each a writer, all recorded."""
    sinks = [opened_log(tmp_path, f"run-{number}") for number in range(3)]
    for sink in sinks:
        sink.refusal(NAME)
        sink.close()
    assert [chain.found.lines for chain in sound_log(tmp_path).chains] == [2, 2, 2]


@pytest.mark.parametrize("name", ["chains/0002", "chains", "chains/register"])
def test_s68_a_run_that_is_taken_out_of_the_record_is_found(name: str, tmp_path: Path) -> None:
    """S-68: its whole chain, all chains but the first, or what names the chains; then also after a start."""
    write_chains(tmp_path, 3)
    sound_log(tmp_path)
    path = tmp_path / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    assert not verify_log(tmp_path, KEY).is_sound
    opened_log(tmp_path).close()
    assert not verify_log(tmp_path, KEY).is_sound


# What is in it ----------------------------------------------------------------------------------

RULES = """
version: 1
secrets:
  github: { from: "env:GITHUB_TOKEN", hosts: [api.github.com] }
hosts:
  api.github.com:
    allow:
      - { id: write, methods: [POST], paths: [/user] }
    inject:
      - bearer: github
"""
TOKEN = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6"
PRIVATE = ["q-u-e-r-y", "b-o-d-y", "h-e-a-d-e-r", "c-o-o-k-i-e", TOKEN]


def test_s70_names_and_numbers_are_there_and_values_are_not(tmp_path: Path) -> None:
    """S-70: a real exchange with a secret that comes back; every byte the audit wrote is searched."""
    policy = load([RuleText("hosts.yaml", RULES)]).policy
    assert policy is not None
    secret = Secret("github", TOKEN.encode())
    exchange = Exchange(policy, Identity("agent-1"), Destination("https", "api.github.com", 443))
    asked = (
        ("host", "api.github.com"),
        ("authorization", "Bearer h-e-a-d-e-r"),
        ("cookie", "c-o-o-k-i-e=1"),
        ("x-note", "h-e-a-d-e-r"),
    )
    needed = exchange.begin(Request("POST", "/user?token=q-u-e-r-y", asked), 0)
    assert isinstance(needed, NeedSecrets)
    sink = opened(tmp_path)
    ticket = sink.begin(Intent("r-1", "c-1", "agent-1", "api.github.com", 443, "POST", needed.names))
    assert isinstance(exchange.provide({"github": secret}, Needles.of([secret])), SendRequest)
    exchange.respond(Response(200, "OK", (("set-cookie", "c-o-o-k-i-e=2"),)))
    exchange.data(f"b-o-d-y {TOKEN}".encode())
    exchange.end()
    record = exchange.finish()
    sink.exchange(ticket, record, FACTS)
    sink.begin(Intent("r-2", "c-1", "agent-1", "api.github.com", 443, "POST", needed.names))
    sink.flush()
    abandon(sink)
    opened(tmp_path).close()

    (line, lost) = read(tmp_path)
    assert line["sandbox"] == "agent-1"
    assert (line["rule"], line["place"]) == ("api.github.com#write", "hosts.yaml:8")
    assert (line["verdict"], line["path"], line["bytes_down"]) == ("allow", "/user", record.bytes_down)
    assert line["injected"] == [{"secret": "github", "slot": "header:authorization"}]
    assert line["scrubbed"] == {"github": 1}
    assert lost["secrets"] == ["github"]
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir()).decode("latin-1")
    assert [word for word in PRIVATE if word in everything] == []


@pytest.mark.parametrize("text", ["\r\n{}", "\x1b]0;x\x07", '"},{"seq":1', "\\u0000", "\x9b2J", "\u2028"])
def test_s70_what_a_sandbox_writes_stays_inside_of_its_field(text: str, tmp_path: Path) -> None:
    """S-70 with class 24: no line of its own, no command to a terminal, no field of ours."""
    sink = opened(tmp_path)
    sink.exchange(None, replace(DENIED, path=f"/{text}"), FACTS)
    sink.refusal(replace(NAME, host=text))
    sink.close()
    raw = files(tmp_path)[0].read_bytes()
    assert raw.count(b"\n") == 2
    assert all(0x20 <= byte < 0x7F for byte in raw.replace(b"\n", b""))
    assert [json.loads(line).get("path") for line in raw.splitlines()] == [f"/{text}", None]


# The clock --------------------------------------------------------------------------------------


def test_s71_the_sequence_grows_when_the_clock_is_put_back(tmp_path: Path) -> None:
    """S-71: by a year, within one run and over a restart; the times are those of the clock."""
    clock = Clock()
    sink = opened(tmp_path, clock)
    sink.refusal(NAME)
    clock.ns -= 365 * 24 * 3600 * 10**9
    sink.refusal(NAME)
    sink.close()
    sink = opened(tmp_path, Clock(0))
    sink.refusal(NAME)
    sink.close()
    assert [line["seq"] for line in read(tmp_path)] == [1, 2, 3]
    years = [str(line["time"])[:4] for line in read(tmp_path)]
    assert years == ["2026", "2025", "1970"]
    sound(tmp_path)


# Floods -----------------------------------------------------------------------------------------


def test_s81_a_flood_of_refusals_is_folded_and_others_are_whole(tmp_path: Path) -> None:
    """S-81: an hour at a thousand refusals a second is a few lines a second, and every one is counted."""
    clock = Clock()
    sink = opened(tmp_path, clock)
    for _ in range(60):
        for number in range(500):
            sink.refusal(replace(NAME, host=f"{number}.evil.example"))
            sink.exchange(None, DENIED, FACTS)
        sink.refusal(replace(NAME, identity=Identity("agent-2")))
        clock.seconds += 1
        sink.tick()
    sink.close()
    lines = read(tmp_path)
    flood = [line for line in lines if line["sandbox"] == "agent-1"]
    assert len(flood) == 60 * 22
    folded = sum(int(str(line["count"])) for line in flood if line["event"] == "folded")
    assert folded + 60 * 20 == 60 * 1000
    assert sum(line["sandbox"] == "agent-2" for line in lines) == 60
    sound(tmp_path)


def test_s81_a_sandbox_that_fills_the_log_is_stopped_alone(tmp_path: Path) -> None:
    """S-81 with a quota: what is allowed fills the disk too."""
    sink = opened(tmp_path, quota=20_000)
    done = 0
    while sink.may_work("agent-1"):
        sink.exchange(sink.begin(OPENING), RECORD, FACTS)
        sink.flush()
        done += 1
    assert 20 <= done <= 30
    assert sink.may_work("agent-2")
    for _ in range(10_000):
        sink.refusal(NAME)
    sink.close()
    assert kinds(tmp_path).count("sandbox.stopped") == 1
    assert sum(file.stat().st_size for file in files(tmp_path)) < 22_000
    sound(tmp_path)
