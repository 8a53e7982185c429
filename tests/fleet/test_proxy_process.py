"""One run of a proxy: what it is told, what it says, and how it ends."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from egress.fleet import proxy_process
from egress.fleet.errors import ProxyFailedError
from egress.fleet.proxy_process import ProxyProcess
from tests.fleet.test_die_with_parent import is_alive
from tests.proxy.serve_process import until

Start = Callable[[str], ProxyProcess]
SERVING = "read line; echo serving; "


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return lambda script: ProxyProcess(["/bin/sh", "-c", script], {"PATH": "/bin:/usr/bin"}, tmp_path / "log")


def always() -> bool:
    return True


def test_it_waits_for_its_release_and_is_heard_when_it_serves(start: Start) -> None:
    process = start(SERVING + "exec sleep 1000")
    process.release()
    process.wait_until_serving()
    assert is_alive(process.pid)
    process.terminate()
    process.wait_until_ended(always)
    assert not is_alive(process.pid)


def test_its_output_is_the_error_when_it_does_not_start(start: Start, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("error: of a run before\n", encoding="utf-8")
    process = start("read line; printf 'a.yaml:3: wrong\\nerror: no\\nhint: yes\\n' >&2; exit 2")
    process.release()
    with pytest.raises(ProxyFailedError) as caught:
        process.wait_until_serving()
    assert (caught.value.message, caught.value.hint) == ("no\na.yaml:3: wrong", "yes")
    assert caught.value.exit_status == 2
    assert not is_alive(process.pid)


def test_one_that_ended_before_its_release_is_told_of(start: Start) -> None:
    process = start("echo 'all is lost' >&2; exit 70")
    until(lambda: not is_alive(process.pid), "the proxy to end")
    process.release()
    with pytest.raises(ProxyFailedError, match="exited during its start") as caught:
        process.wait_until_serving()
    assert (caught.value.hint, caught.value.exit_status) == ("its last line: all is lost", 3)


def test_one_that_says_nothing_in_time_is_killed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_process, "_START_TIMEOUT", 0.05)
    process = start("exec sleep 1000")
    process.release()
    with pytest.raises(ProxyFailedError, match="not ready within"):
        process.wait_until_serving()
    assert not is_alive(process.pid)


def test_one_that_computes_is_waited_for_however_long_it_takes(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with forty starts at once on two processors."""
    monkeypatch.setattr(proxy_process, "_START_TIMEOUT", 0.1)
    monkeypatch.setattr(proxy_process, "_CHECK_INTERVAL", 0.02)
    ticks = itertools.count()
    monkeypatch.setattr(ProxyProcess, "_processor_time", lambda _: b"%d" % next(ticks))
    process = start("sleep 0.5; " + SERVING + "exec sleep 1000")
    process.release()
    process.wait_until_serving()
    process.terminate()
    process.wait_until_ended(always)
    monkeypatch.setattr(proxy_process, "_MAX_START_SECONDS", 0.1)
    endless = start("exec sleep 1000")
    endless.release()
    with pytest.raises(ProxyFailedError, match="not ready within"):
        endless.wait_until_serving()


def test_what_a_process_has_computed_is_told_apart_from_nothing(start: Start) -> None:
    still, busy = start("exec sleep 1000"), start("while :; do :; done")
    before = busy._processor_time()
    until(lambda: busy._processor_time() != before, "the busy one to compute")
    asleep = still._processor_time()
    assert asleep
    for process in (still, busy):
        process.terminate()
        process.wait_until_ended(always)
    assert still._processor_time() == b"" != asleep


def test_one_that_does_not_end_in_time_is_killed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_process, "_STOP_TIMEOUT", 0.05)
    monkeypatch.setattr(proxy_process, "_CHECK_INTERVAL", 0.01)
    process = start("trap '' TERM; " + SERVING + "while :; do sleep 1; done")
    process.release()
    process.wait_until_serving()
    process.terminate()
    process.wait_until_ended(always)
    assert not is_alive(process.pid)


def test_its_end_is_noticed_by_whoever_waits(start: Start) -> None:
    process = start(SERVING + "exec sleep 1000")
    process.release()
    process.wait_until_serving()
    waiting = threading.Thread(target=process.wait_until_ended, args=(lambda: False,))
    waiting.start()
    process.terminate()
    waiting.join(30)
    assert not waiting.is_alive()


def test_ctrl_c_is_not_for_it(start: Start) -> None:
    """The caller removes its sandboxes first."""
    process = start(SERVING + "exec sleep 1000")
    process.release()
    process.wait_until_serving()
    group = int(Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[2])
    assert group == process.pid
    process.terminate()
    process.wait_until_ended(always)
