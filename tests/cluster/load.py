"""Sandboxes that ask steadily, each thread over a connection that is kept, and say how each request ended."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.cluster.installed_chart import InstalledChart
from tests.cluster.running_cluster import wait
from tests.cluster.shipped_fence import PYTHON

# A request is tried again only where that is wanted. A connection is given up when its answer says so.
_LOAD: Final = """
import http.client, json, pathlib, ssl, sys, threading, time

name, threads, pause, tries = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
context = ssl.create_default_context(cafile="/etc/egress-trust/ca.pem")
ended, said = pathlib.Path("/tmp/ended"), threading.Lock()

def tell(*what):
    with said:
        print(json.dumps(what), flush=True)

def connect():
    connection = http.client.HTTPSConnection("ADDRESS", 3128, timeout=10, context=context)
    connection.set_tunnel("api.github.com")
    return connection

def ask(thread):
    connection, number = connect(), 0
    while not ended.exists():
        began, number = time.monotonic(), number + 1
        path, error = f"/load/{name}/{thread}/{number}", ""
        for turn in range(1, tries + 1):
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                response.read()
                error = "" if response.status == 200 else str(response.status)
                if response.will_close:
                    connection.close()
            except (OSError, http.client.HTTPException) as broken:
                error = repr(broken)
            if not error:
                break
            connection.close()
            connection = connect()
            if turn < tries:
                time.sleep(0.1)
        tell(path, turn, round(time.monotonic() - began, 3), error)
        time.sleep(max(0, pause - (time.monotonic() - began)))

def stream(seconds):
    connection = connect()
    try:
        connection.request("GET", f"/slow/{seconds}")
        lines = connection.getresponse().read().splitlines()
        error = "" if len(lines) == seconds else f"{len(lines)} lines"
    except (OSError, http.client.HTTPException) as broken:
        error = repr(broken)
    tell("stream", 1, seconds, error)

work = [threading.Thread(target=ask, args=[each]) for each in range(threads)]
if sys.argv[5:]:
    work.append(threading.Thread(target=stream, args=[int(sys.argv[5])]))
for each in work:
    each.start()
for each in work:
    each.join()
tell("ended", 0, 0, "")
time.sleep(3600)
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: how often it was tried, how long that took, and why it failed, or nothing."""

    path: str
    tries: int
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class Load:
    """Pods of a chart that ask together `rate` times a second."""

    chart: InstalledChart
    names: tuple[str, ...]

    @classmethod
    def start(
        cls,
        chart: InstalledChart,
        pods: int,
        *,
        rate: float,
        tries: int = 1,
        stream: int = 0,
        threads: int = 5,
    ) -> Load:
        """With `stream`, the first pod also reads an answer that comes over so many seconds."""
        mark = secrets.token_hex(3)
        found = cls(chart, tuple(f"load-{mark}-{number}" for number in range(pods)))
        for name in found.names:
            pod = chart.asking(name)
            words = [name, str(threads), str(pods * threads / rate), str(tries)]
            words += [str(stream)] if stream and name == found.names[0] else []
            script = _LOAD.replace("ADDRESS", chart.address)
            pod["spec"]["containers"][0]["command"] = [PYTHON, "-I", "-c", script, *words]
            chart.cluster.api.create(chart.path("pods"), pod)
        chart.cluster.until_ready(chart.namespace, *found.names)
        for name in found.names:
            found._until(name, lambda asked: len(asked) > 20)
        return found

    def asked(self, name: str) -> list[Asked]:
        """The requests of a pod so far."""
        text = self.chart.cluster.api.text(f"{self.chart.path('pods')}/{name}/log?container=workload")
        return [Asked(*json.loads(line)) for line in text.splitlines() if line.endswith("]")]

    def _until(self, name: str, is_so: Callable[[list[Asked]], bool]) -> None:
        wait(lambda: is_so(self.asked(name)), lambda: f"{name}: {self.asked(name)[-3:]}", 180)

    def stop(self) -> list[Asked]:
        """End it, and return the requests of all pods, and the stream."""
        for name in self.names:
            words = (PYTHON, "-I", "-c", "open('/tmp/ended', 'w')")
            done = self.chart.cluster.execute(self.chart.namespace, name, *words)
            assert done.returncode == 0, done.stderr
        found: list[Asked] = []
        for name in self.names:
            self._until(name, lambda asked: asked[-1].path == "ended")
            found += self.asked(name)[:-1]
        return found
