"""What the handle promises of sleep, as cases that run against each kind of real sandbox."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import cast
from urllib.parse import urlsplit

import pytest

from egress.fleet import Fleet
from egress.runtime.errors import PortClosedError, SandboxDiedError
from egress.sandbox.handle import Sandbox
from tests.sandbox.network_cases import SERVER

ASK = """
import urllib.error, urllib.request
try:
    urllib.request.urlopen("http://nonesuch.test/", timeout=20)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def what_was_written_is_there_and_what_ran_is_gone(box: Sandbox) -> None:
    box.files.write("kept.txt", "kept")
    session = box.session()
    session.exec("mkdir -p below && cd below")
    before = box.spawn("echo begun; sleep 1000")
    before.wait_for_log("begun", timeout=30)
    box.sleep()
    assert box.status() == "asleep"
    with pytest.raises(SandboxDiedError):
        before.wait(30)
    # Its folder and variables are gone: a new shell in its place would run commands elsewhere.
    with pytest.raises(SandboxDiedError):
        session.exec("pwd")
    assert box.status() == "asleep"
    assert box.exec("cat kept.txt; ls -d below").text == "keptbelow\n"
    assert box.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 100[0]'").text == "0\n"


def every_use_wakes_it(box: Sandbox) -> None:
    uses: dict[str, Callable[[], object]] = {
        "exec": lambda: box.exec("true", check=True),
        "spawn": lambda: box.spawn("true").wait(30),
        "write": lambda: box.files.write("a", "b"),
        "list": lambda: box.files.listdir("."),
        "session": lambda: box.session().exec("true"),
        "terminal": lambda: box.pty("true").wait(30),
        "start": box.start,
        "wake": box.wake,
    }
    for name, use in uses.items():
        box.sleep()
        use()
        assert (name, box.status()) == (name, "running")


def many_calls_at_once_find_it_started_once(box: Sandbox) -> None:
    box.sleep()
    barrier = threading.Barrier(8)

    def began(_: int) -> str:
        barrier.wait(30)
        # The start time of the first process, which each start of the sandbox begins anew.
        return box.exec(["cut", "-d", " ", "-f", "22", "/proc/1/stat"], check=True).text

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(began, range(8)))) == 1


def the_proxy_serves_it_after_it_slept(box: Sandbox) -> None:
    assert box.exec(["python3", "-c", ASK]).text == "403\n"
    box.sleep()
    assert box.exec(["python3", "-c", ASK]).text == "403\n"


def a_preview_wakes_it_and_says_that_its_programs_ended(box: Sandbox) -> None:
    with box.spawn(["python3", "-c", SERVER]) as server:
        server.wait_for_port(8000, timeout=30)
        url = urlsplit(box.expose(8000))
        box.sleep()
    token = url.query.partition("=")[2]
    connection = http.client.HTTPConnection("127.0.0.1", url.port or 0, timeout=60)
    cookie = {"Host": url.netloc, "Cookie": f"egress-preview={token}"}
    connection.request("GET", "/", headers=cookie)
    answer = connection.getresponse()
    assert (answer.status, b"it has slept, which ends its programs" in answer.read()) == (502, True)
    connection.close()
    assert box.status() == "running"
    with pytest.raises(PortClosedError):
        cast("Fleet", box._place.runtime).dial(box.name, 8000)


def an_idle_one_falls_asleep_and_is_woken(box: Sandbox) -> None:
    fleet = cast("Fleet", box._place.runtime)
    image = box.info().image
    with Sandbox.create(image=image, runtime=fleet, idle_timeout=0.000001, on_idle="sleep") as other:
        other.files.write("kept.txt", "kept")
        # A command that has just ended counts as use until a look has found it ended.
        while not fleet.sleep_idle():
            assert other.status() == "running"
        assert other.status() == "asleep"
        assert other.files.read_text("kept.txt") == "kept"


CASES = (
    what_was_written_is_there_and_what_ran_is_gone,
    every_use_wakes_it,
    many_calls_at_once_find_it_started_once,
    the_proxy_serves_it_after_it_slept,
    a_preview_wakes_it_and_says_that_its_programs_ended,
    an_idle_one_falls_asleep_and_is_woken,
)
