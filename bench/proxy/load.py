"""The load generator: CONNECT, TLS, requests. `python -m bench.proxy.load JSON` prints its counts as JSON.

Lean, because it shares its core with the upstream: blocking sockets to set up, one epoll loop on
non-blocking ones to measure. It reads the proxy's CPU from /proc itself, so that start-up and warm-up are
not charged to anybody. Any answer but 200 ends the run.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset

from bench.proxy import process
from bench.proxy.job import Job, Result
from bench.proxy.setting import BIG

WARM_UP = 0.3
WAITING = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
LAST_CHUNK = b"0\r\n\r\n"


# Connections --------------------------------------------------------------------------------------


def context_for(job: Job) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=job.ca)
    context.set_alpn_protocols(["h2"] if job.kind == "http2" else ["http/1.1"])
    return context


def connect(
    job: Job, context: ssl.SSLContext, session: ssl.SSLSession | None = None, source: str = ""
) -> ssl.SSLSocket:
    to = (job.proxy_host, job.proxy) if job.proxy else ("127.0.0.1", job.port)
    sock = socket.create_connection(to, timeout=30, source_address=(source, 0) if source else None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if job.proxy:
        authority = f"{job.name}:{job.port}"
        sock.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            data = sock.recv(4096)
            if not data:
                sys.exit(f"the proxy closed after CONNECT {authority}: {answer[:80]!r}")
            answer += data
        if answer.split(b" ", 2)[1] != b"200":
            sys.exit(f"CONNECT {authority} was answered {answer[:200]!r}")
    return context.wrap_socket(sock, server_hostname=job.name, session=session)


def request_for(job: Job) -> bytes:
    own = f"Authorization: {job.credential}\r\n" if job.credential else ""
    head = f"GET {job.target} HTTP/1.1\r\nHost: {job.name}:{job.port}\r\nAccept: */*\r\n{own}\r\n"
    return head.encode()


def expect_200(data: bytes) -> None:
    if not data.startswith(b"HTTP/1.1 200"):
        sys.exit(f"the answer is not 200: {data[:200]!r}")


def first_response(sock: ssl.SSLSocket, request: bytes) -> bytes:
    """Ask once at leisure and return how the body ends, by which later answers are known to be whole."""
    sock.sendall(request)
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(65536)
    expect_200(data)
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    if b"content-length" not in fields:
        while not body.endswith(LAST_CHUNK):
            body += sock.recv(65536)
        return LAST_CHUNK
    while len(body) < int(fields[b"content-length"]):
        body += sock.recv(65536)
    return body[-12:]


# Measuring ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Meter:
    """Counts between two moments, with the CPU that the proxy and we spent in between."""

    pid: int
    count: int = 0
    delays: list[float] = field(default_factory=list)
    began: float = 0.0
    _proxy: float = 0.0
    _own: float = 0.0

    def begin(self) -> None:
        self.count = 0
        self.delays.clear()
        self._proxy = process.cpu_seconds(self.pid) if self.pid else 0.0
        self._own = time.process_time()
        self.began = time.monotonic()

    def end(self) -> Result:
        wall = time.monotonic() - self.began
        proxy = (process.cpu_seconds(self.pid) if self.pid else 0.0) - self._proxy
        own = time.process_time() - self._own
        ordered = sorted(self.delays) or [0.0]
        return {
            "count": self.count,
            "seconds": wall,
            "rate": self.count / wall,
            "cpu_us": proxy / max(1, self.count) * 1e6,
            "cpu_share": proxy / wall,
            "load_share": own / wall,
            "p50_ms": ordered[len(ordered) // 2] * 1e3,
            "p99_ms": ordered[len(ordered) * 99 // 100] * 1e3,
        }


def measured(job: Job, meter: Meter, turn: Callable[[], None]) -> Result:
    """Take turns through the warm-up, then for the time of the job."""
    for seconds in (WARM_UP, job.seconds):
        meter.begin()
        deadline = meter.began + seconds
        while time.monotonic() < deadline:
            turn()
    return meter.end()


# Jobs ---------------------------------------------------------------------------------------------


def keepalive(job: Job) -> Result:
    """One request after the other on each connection."""
    context, request = context_for(job), request_for(job)
    meter = Meter(job.pid)
    poll = select.epoll()
    socks: dict[int, ssl.SSLSocket] = {}
    parts: dict[int, bytes] = {}
    asked: dict[int, float] = {}
    tail = b""
    for _ in range(job.connections):
        sock = connect(job, context)
        tail = first_response(sock, request)
        sock.settimeout(0)
        number = sock.fileno()
        socks[number], parts[number] = sock, b""
        poll.register(number, select.EPOLLIN)
    for number, sock in socks.items():
        asked[number] = time.monotonic()
        sock.send(request)

    def turn() -> None:
        for number, _ in poll.poll(1.0):
            sock = socks[number]
            data = parts[number]
            while not data.endswith(tail):
                try:
                    part = sock.recv(65536)
                except WAITING:
                    break
                if not part:
                    sys.exit("a kept connection was closed")
                data += part
            if not data.endswith(tail):
                parts[number] = data
                continue
            expect_200(data)
            now = time.monotonic()
            meter.count += 1
            meter.delays.append(now - asked[number])
            parts[number], asked[number] = b"", now
            sock.send(request)

    return measured(job, meter, turn)


def new_connections(job: Job) -> Result:
    """CONNECT, TLS, one request and close, over and over in a few threads."""
    meter = Meter(job.pid)
    lock = threading.Lock()
    over = threading.Event()
    failures: list[str] = []
    resumed = 0

    def worker() -> None:
        nonlocal resumed
        context, request = context_for(job), request_for(job)
        session: ssl.SSLSession | None = None
        while not over.is_set():
            began = time.monotonic()
            try:
                sock = connect(job, context, session)
                first_response(sock, request)
            except (OSError, SystemExit) as error:
                failures.append(str(error))
                return
            with lock:
                meter.count += 1
                meter.delays.append(time.monotonic() - began)
                resumed += bool(sock.session_reused)
            # Python copies a session at great cost, so one is kept while it serves. Tickets of TLS 1.3 come
            # behind the handshake: they are there once a response was read.
            if job.resume and not sock.session_reused:
                session = sock.session
            goodbye(sock)

    threads = [threading.Thread(target=worker) for _ in range(min(8, job.connections))]
    for thread in threads:
        thread.start()
    time.sleep(WARM_UP)
    with lock:
        meter.begin()
        resumed = 0
    time.sleep(job.seconds)
    with lock:
        found = meter.end()
        found["resumed"] = resumed / max(1, meter.count)
    over.set()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit(failures[0])
    return found


def goodbye(sock: ssl.SSLSocket) -> None:
    """Send close_notify as clients do, and wait for nothing."""
    sock.settimeout(0)
    with suppress(OSError):
        sock.unwrap()
    sock.close()


def download(job: Job) -> Result:
    """A large body over and over on one connection; and how much memory the proxy took for it."""
    sock = connect(job, context_for(job))
    buffer = bytearray(256 * 1024)
    request = request_for(job)
    meter = Meter(job.pid)
    idle = 0.0
    if job.pid:
        process.forget_peak(job.pid)
        idle = process.resident(job.pid)
    meter.begin()
    while time.monotonic() < meter.began + job.seconds or meter.count < 2:
        sock.sendall(request)
        fetch(sock, buffer)
        meter.count += 1
    found = meter.end()
    found["rate"] = found["rate"] * BIG / 1e6
    found["cpu_ms"] = found["cpu_us"] / 1e3
    found["peak_mb"] = process.resident(job.pid, "VmHWM") - idle if job.pid else 0.0
    goodbye(sock)
    return found


def fetch(sock: ssl.SSLSocket, buffer: bytearray) -> None:
    """Read one answer with a known length, or in chunks."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(65536)
    expect_200(data)
    head, _, body = data.partition(b"\r\n\r\n")
    left = BIG - len(body)
    if b"chunked" in head.lower():
        # Framing comes on top, so the end is known by its last bytes.
        last = body[-5:]
        while last != LAST_CHUNK or left > 0:
            count = sock.recv_into(buffer)
            left -= count
            last = (last + buffer[max(0, count - 5) : count])[-5:]
            if not count:
                sys.exit("the download was cut off")
        return
    while left > 0:
        count = sock.recv_into(buffer)
        if not count:
            sys.exit(f"the download was cut off, {left} bytes early")
        left -= count


class Multiplexed:
    """One HTTP/2 connection that always has the same number of requests under way."""

    def __init__(self, job: Job, context: ssl.SSLContext, streams: int) -> None:
        self.sock = connect(job, context)
        if self.sock.selected_alpn_protocol() != "h2":
            sys.exit("HTTP/2 was not offered")
        self._h2 = H2Connection(H2Configuration(validate_outbound_headers=False, header_encoding=None))
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(2**30)
        self._fields = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", f"{job.name}:{job.port}"),
            (":path", job.target),
        ]
        if job.credential:
            self._fields.append(("authorization", job.credential))
        for _ in range(streams):
            self._ask()
        self._flush()
        self.sock.settimeout(0)

    def take(self) -> int:
        """Read what is there, ask anew for each that is done, return how many were."""
        done = 0
        for data in self._arrived():
            for event in self._h2.receive_data(data):
                if isinstance(event, DataReceived):
                    self._h2.acknowledge_received_data(
                        event.flow_controlled_length or 0, event.stream_id or 0
                    )
                elif isinstance(event, ResponseReceived):
                    status = next((text for name, text in event.headers or [] if name == b":status"), b"")
                    if status != b"200":
                        sys.exit(f"the answer is not 200: {status!r}")
                elif isinstance(event, StreamReset):
                    sys.exit("a stream was reset")
                elif isinstance(event, StreamEnded):
                    done += 1
                    self._ask()
        self._flush()
        return done

    def _arrived(self) -> Iterator[bytes]:
        while True:
            try:
                data = self.sock.recv(65536)
            except WAITING:
                return
            if not data:
                sys.exit("the HTTP/2 connection was closed")
            yield data

    def _ask(self) -> None:
        self._h2.send_headers(self._h2.get_next_available_stream_id(), self._fields, end_stream=True)

    def _flush(self) -> None:
        if data := self._h2.data_to_send():
            self.sock.settimeout(30)
            self.sock.sendall(data)
            self.sock.settimeout(0)


def http2(job: Job) -> Result:
    """As many requests under way as there are connections in the other jobs, on four of them."""
    context = context_for(job)
    meter = Meter(job.pid)
    poll = select.epoll()
    connections: dict[int, Multiplexed] = {}
    for _ in range(4):
        connection = Multiplexed(job, context, job.connections // 4)
        connections[connection.sock.fileno()] = connection
        poll.register(connection.sock.fileno(), select.EPOLLIN)

    def turn() -> None:
        for number, _ in poll.poll(1.0):
            meter.count += connections[number].take()

    return measured(job, meter, turn)


def events(job: Job) -> Result:
    """Many streams of events at once; the delay of each event from its sending to here."""
    context, request = context_for(job), request_for(job)
    meter = Meter(job.pid)
    poll = select.epoll()
    socks: dict[int, ssl.SSLSocket] = {}
    rests: dict[int, bytes] = {}
    for _ in range(job.connections):
        sock = connect(job, context)
        sock.sendall(request)
        sock.settimeout(0)
        socks[sock.fileno()], rests[sock.fileno()] = sock, b""
        poll.register(sock.fileno(), select.EPOLLIN)

    def turn() -> None:
        for number, _ in poll.poll(1.0):
            try:
                data = rests[number] + socks[number].recv(65536)
            except WAITING:
                continue
            now = time.monotonic()
            *whole, rests[number] = data.split(b"\n\n")
            for part in whole:
                at = part.rfind(b"data: ")
                if at >= 0:
                    meter.count += 1
                    meter.delays.append(now - float(part[at:].split()[2]))

    found = measured(job, meter, turn)
    if not found["count"]:
        sys.exit("no event came")
    return found


JOBS: dict[str, Callable[[Job], Result]] = {
    "keepalive": keepalive,
    "connect": new_connections,
    "download": download,
    "http2": http2,
    "events": events,
}

if __name__ == "__main__":
    asked_for = Job(**json.loads(sys.argv[1]))
    print(json.dumps(JOBS[asked_for.kind](asked_for)))
