"""Many sandboxes that ask all the time: `python -m bench.kubernetes.steady GATEWAY SANDBOXES SECONDS`.

It prints numbers as JSON. Each sandbox keeps one connection from the address of its pod and asks once a
second; they take turns, so that the second is even. A delay begins when the request was due, whether or not
the one before was answered.
"""

from __future__ import annotations

import json
import select
import ssl
import sys
import time

from bench.kubernetes.cluster_objects import address
from bench.kubernetes.setting import GATEWAY, Gateway
from bench.proxy.job import Job
from bench.proxy.load import WAITING, connect, context_for, expect_200, first_response, request_for
from bench.proxy.process import cpu_seconds, resident
from bench.proxy.setting import API


class Steady:
    """The kept connections."""

    def __init__(self, gateway: Gateway, sandboxes: int) -> None:
        self._gateway = gateway
        job = Job(
            "keepalive", API, gateway.upstream, str(gateway.ca), 0, proxy=gateway.port, proxy_host=GATEWAY
        )
        self._request = request_for(job)
        context = context_for(job)
        self._poll = select.epoll()
        self._socks: list[ssl.SSLSocket] = []
        self._numbers: dict[int, int] = {}
        for number in range(sandboxes):
            sock = connect(job, context, source=address(number + 1))
            self._end = first_response(sock, self._request)
            sock.settimeout(0)
            self._numbers[sock.fileno()] = number
            self._socks.append(sock)
            self._poll.register(sock.fileno(), select.EPOLLIN)
        self._parts = [b""] * sandboxes
        self._due: list[float | None] = [None] * sandboxes
        self._delays: list[float] = []
        self._late = 0

    def run(self, seconds: float) -> dict[str, float]:
        pid = self._gateway.pid
        cpu, began = cpu_seconds(pid), time.monotonic()
        turn, interval = 0, 1 / len(self._socks)
        while (due := began + turn * interval) < began + seconds:
            wait = due - time.monotonic()
            if wait > 0:
                self._read(wait)
            else:
                self._ask(turn % len(self._socks), due)
                turn += 1
        share = (cpu_seconds(pid) - cpu) / (time.monotonic() - began)
        deadline = time.monotonic() + 10
        while any(self._due) and time.monotonic() < deadline:
            self._read(0.1)
        ordered = sorted(self._delays)
        return {
            "asked": turn,
            "answered": len(ordered),
            "late": self._late,
            "cpu_share": share,
            "memory_mib": resident(pid, "VmHWM"),
            "p50_ms": ordered[len(ordered) // 2] * 1e3,
            "p99_ms": ordered[len(ordered) * 99 // 100] * 1e3,
        }

    def _ask(self, number: int, due: float) -> None:
        if self._due[number] is not None:
            # It is still waiting for its last answer.
            self._late += 1
            return
        self._due[number] = due
        self._socks[number].send(self._request)

    def _read(self, wait: float) -> None:
        for descriptor, _ in self._poll.poll(wait):
            number = self._numbers[descriptor]
            data = self._parts[number]
            while not data.endswith(self._end):
                try:
                    part = self._socks[number].recv(65536)
                except WAITING:
                    break
                if not part:
                    sys.exit("a kept connection was closed")
                data += part
            self._parts[number] = data
            due = self._due[number]
            if data.endswith(self._end) and due is not None:
                expect_200(data)
                self._delays.append(time.monotonic() - due)
                self._parts[number], self._due[number] = b"", None


if __name__ == "__main__":
    print(json.dumps(Steady(Gateway.of(sys.argv[1]), int(sys.argv[2])).run(float(sys.argv[3]))))
