"""The lab itself: what it cannot see, no case can find."""

from __future__ import annotations

import base64
import bz2
import gzip
import html
import os
import signal
import socket
import ssl
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import pytest
import zstandard

from tests.attack.lab import names
from tests.attack.lab.cases import case
from tests.attack.lab.client import request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.http2 import Http2
from tests.attack.lab.lab import Lab
from tests.attack.lab.leak_detector import RUN, Leak, leaks
from tests.attack.lab.names import ADDRESSES, ANY, API, EVIL, OTHER, SOCKETS
from tests.attack.lab.proxies import Egress, Naive, Proxy
from tests.attack.lab.quick_leak_scan import QuickLeakScan
from tests.attack.lab.websocket import CLOSE, TEXT, ask_for_websocket, frame, frames, read_frame
from tests.cli.command import ROOT
from tests.proxy.serve_process import until

pytestmark = pytest.mark.system("ip", "iproute2")

METADATA = "169.254.169.254"


def send_from(
    proxy: Proxy, target: tuple[str, int], *, kind: int = socket.SOCK_STREAM, data: bytes = b""
) -> bytes:
    """Connect from a proxy's room as the proxy would, send, and take what comes back."""
    family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
    with proxy.room.socket(family, kind) as sock:
        sock.settimeout(10)
        try:
            sock.connect(target)
        except OSError:
            return b""
        if data:
            sock.send(data)
        return sock.recv(1000) if data and kind == socket.SOCK_STREAM else b""


@pytest.fixture
def room(lab: Lab, naive: Naive) -> Naive:
    """A room to send from; what is found is looked at from here on."""
    lab.begin(naive)
    return naive


# The networks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        (METADATA, 80),
        ("10.0.0.1", 80),
        ("192.168.1.1", 8080),
        ("100.64.0.1", 443),
        ("168.63.129.16", 80),
        ("198.18.0.1", 80),
        ("240.0.0.1", 80),
        ("8.8.8.8", 53),
        ("127.0.0.1", 22),
        ("127.9.9.9", 80),
        ("::1", 80),
        ("fd00:ec2::254", 80),
        ("64:ff9b::a9fe:a9fe", 80),
        ("::ffff:10.0.0.1", 80),
        ("2002:a9fe:a9fe::1", 80),
        ("2606:4700::1111", 443),
    ],
)
def test_every_address_answers_and_is_seen(lab: Lab, room: Naive, target: tuple[str, int]) -> None:
    assert b"I sang!" in send_from(room, target, data=b"GET / HTTP/1.1\r\n\r\n")
    where = target[0].removeprefix("::ffff:")
    assert [(each.kind, each.target) for each in lab.opened(room)] == [("tcp", (where, target[1]))]
    assert [str(finding) for finding in lab.harms(room)] == [f"reached: tcp to {where} port {target[1]}"]


def test_a_connection_is_seen_where_nobody_listens(lab: Lab, room: Naive) -> None:
    """Or listens to anything but TCP: a datagram is enough."""
    places = [("10.0.0.1", 4711), ("127.0.0.1", 4711), (room.room.four, 4711), ("0.0.0.0", 4711)]
    for place in places:
        send_from(room, place)
    send_from(room, ("8.8.8.8", 443), kind=socket.SOCK_DGRAM, data=b"quic")
    found = [(each.kind, each.target) for each in lab.opened(room)]
    # The unspecified address is this machine.
    assert found == [
        ("tcp", ("10.0.0.1", 4711)),
        ("tcp", ("127.0.0.1", 4711)),
        ("tcp", (room.room.four, 4711)),
        ("tcp", ("127.0.0.1", 4711)),
        ("udp", ("8.8.8.8", 443)),
    ]
    assert {finding.harm for finding in lab.harms(room)} == {Harm.REACHED}
    assert len(lab.harms(room)) == len(found)


def test_what_rules_open_is_no_finding(lab: Lab, room: Naive) -> None:
    send_from(room, (ADDRESSES[API], 443))
    send_from(room, (names.NAME_SERVER, 53), kind=socket.SOCK_DGRAM, data=b"?")
    assert lab.harms(room) == []


def test_another_port_of_an_open_host_is_a_finding(lab: Lab, room: Naive) -> None:
    send_from(room, (ADDRESSES[API], 8443))
    assert [finding.harm for finding in lab.harms(room)] == [Harm.REACHED]


def test_rooms_do_not_see_each_other(lab: Lab, egress: Egress, room: Naive) -> None:
    lab.begin(egress)
    send_from(room, ("10.0.0.1", 80))
    assert lab.opened(egress) == []


def test_a_secret_on_a_wire_is_seen_across_segments(lab: Lab, room: Naive) -> None:
    value = lab.secrets.api.value
    with room.room.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.connect((ADDRESSES[names.PLAIN], 80))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"GET / HTTP/1.1\r\nx: " + value:
            sock.send(bytes([byte]))
        # Sequence numbers take what comes twice, and in one piece, for what it is.
        sock.send(b"\r\n\r\n")
        assert sock.recv(100)
    found = {finding.harm for finding in lab.harms(room)}
    assert found == {Harm.CLEAR, Harm.STOLEN}


WIRE_FORMS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": bytes,
    "Basic": lambda value: base64.b64encode(b"me:" + value),
    "in a query": lambda value: quote(value, safe="").encode(),
    "some of a query escaped": lambda value: quote(value, safe="/+=").encode(),
    "16 bytes": lambda value: value[9:25],
    "without its first byte": lambda value: value[1:],
    "without its last byte": lambda value: value[:-1],
    "hex": lambda value: value.hex().encode(),
    "reversed": lambda value: value[::-1],
    "in capitals": bytes.upper,
    "in small letters": bytes.lower,
    "with its case swapped": bytes.swapcase,
    "in a packed body": gzip.compress,
}


def tell(lab: Lab, room: Naive, name: str, data: bytes, host: str = "") -> None:
    """Have a host hear this in a request, in TLS where it speaks that, whatever certificate it shows."""
    is_plain = name == names.PLAIN
    head = b"POST /small HTTP/1.1\r\nhost: %b\r\nx: " % (host or name).encode()
    body = b"\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)
    with room.room.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        sock.connect((ADDRESSES[name], 80 if is_plain else 443))
        context = lab.certs.trust()
        if name in names.CERTIFICATES_GONE_WRONG:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with sock if is_plain else context.wrap_socket(sock, server_hostname=name) as line:
            line.sendall(head + body)
            assert line.recv(100)


@pytest.mark.parametrize("form", WIRE_FORMS)
def test_a_secret_at_the_wrong_host_is_seen_in_every_form(lab: Lab, room: Naive, form: str) -> None:
    """And neither what is no secret, nor a run that is too short to be one; nor the host that it is for."""
    encode, value = WIRE_FORMS[form], lab.secrets.api.value
    tell(lab, room, API, encode(value))
    tell(lab, room, OTHER, encode(os.urandom(len(value))))
    tell(lab, room, names.PLAIN, value[9:24])
    assert lab.harms(room) == []
    tell(lab, room, OTHER, encode(value))
    assert {finding.harm for finding in lab.harms(room)} == {Harm.STOLEN}
    lab.begin(room)
    tell(lab, room, names.PLAIN, encode(value))
    assert {finding.harm for finding in lab.harms(room)} == {Harm.STOLEN, Harm.CLEAR}


@pytest.mark.parametrize("form", WIRE_FORMS)
def test_a_secret_in_a_request_for_another_host_is_seen_in_every_form(
    lab: Lab, room: Naive, form: str
) -> None:
    said = WIRE_FORMS[form](lab.secrets.api.value)
    tell(lab, room, API, said)
    assert lab.harms(room) == []
    tell(lab, room, API, said, host=OTHER)
    assert [(each.harm, str(each).endswith(f"in a request for {OTHER}")) for each in lab.harms(room)] == [
        (Harm.STOLEN, True)
    ]


@pytest.mark.parametrize("name", names.CERTIFICATES_GONE_WRONG)
def test_no_secret_is_for_a_host_that_cannot_prove_who_it_is(lab: Lab, room: Naive, name: str) -> None:
    assert name in lab.secrets.api.hosts, "the rules say that it is"
    tell(lab, room, name, b"nothing")
    assert lab.harms(room) == []
    tell(lab, room, name, lab.secrets.api.value)
    assert {finding.harm for finding in lab.harms(room)} == {Harm.STOLEN}


# Names ------------------------------------------------------------------------------------------


def asking(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return b"\x12\x34\1\0\0\1\0\0\0\0\0\0" + labels + b"\0" + bytes([0, kind, 0, 1])


def ask(room: Naive, name: str, kind: int = 1, *, tcp: bool = False) -> bytes:
    """A question of the room, put by hand; the whole reply."""
    question = asking(name, kind)
    with room.room.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as sock:
        sock.settimeout(10)
        sock.connect((names.NAME_SERVER, 53))
        sock.send(len(question).to_bytes(2) + question if tcp else question)
        return sock.recv(4096)


def test_names_lead_where_a_case_says(lab: Lab, room: Naive) -> None:
    lab.dns.set(f"lab-two.{ANY}", "10.0.0.1", "fd00::1")
    lab.dns.set(f"lab-alias.{ANY}", f"lab-two.{ANY}")
    assert ask(room, f"lab-two.{ANY}").endswith(b"\x0a\0\0\1")
    assert ask(room, f"lab-two.{ANY}", 28).endswith(b"\xfd" + bytes(14) + b"\1")
    assert ask(room, f"lab-alias.{ANY}").count(b"\x0a\0\0\1") == 1
    assert ask(room, f"lab-any.{ANY}", tcp=True).endswith(socket.inet_aton(names.ANY_ADDRESS))
    assert ask(room, "nobody.test")[3] & 15 == 3
    assert [each.name for each in lab.questions(room)][-1] == "nobody.test"
    assert [str(finding) for finding in lab.harms(room)] == [
        "asked: the name server was asked for nobody.test"
    ]


def test_what_the_kernel_says_of_a_late_answer_is_no_finding(lab: Lab, room: Naive) -> None:
    """Whoever asked has gone, as it does when a machine is slow: the name server is told by ICMP."""

    def is_told() -> bool:
        # Each time anew: the kernel bounds how often it says so, and drops what is above that.
        answer_late(lab, room)
        return "1" in {each.kind for each in lab.opened(room)}

    until(is_told, "the kernel to say so")
    assert lab.harms(room) == []


def answer_late(lab: Lab, room: Naive) -> None:
    """Answer a question when nobody is there any more who asked it."""
    name = f"lab-late.{ANY}"
    lab.dns.set(name, names.ANY_ADDRESS)
    lab.dns.hold(name)
    with room.room.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((names.NAME_SERVER, 53))
        sock.send(asking(name))
        until(lambda: lab.dns.held(name) > 0, "the question")
    lab.internet.run(release(lab, name))


async def release(lab: Lab, name: str) -> None:
    lab.dns.release(name)


def test_a_row_of_answers_is_given_in_turn(lab: Lab, room: Naive) -> None:
    lab.dns.set_row(f"lab-flip.{ANY}", [names.ANY_ADDRESS], [METADATA])
    found = [ask(room, f"lab-flip.{ANY}")[-4:] for _ in range(3)]
    public, metadata = socket.inet_aton(names.ANY_ADDRESS), socket.inet_aton(METADATA)
    assert found == [public, metadata, public]


# Hosts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        (API, ""),
        (EVIL, ""),
        (names.HTTP2, ""),
        (names.EXPIRED, "expired"),
        (names.WRONG_NAME, "Hostname mismatch"),
        (names.SELF_SIGNED, "self-signed"),
        (names.UNKNOWN_CA, "unable to get local issuer"),
    ],
)
def test_hosts_prove_who_they_are_or_do_not(lab: Lab, room: Naive, name: str, wrong: str) -> None:
    with room.room.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        sock.connect((ADDRESSES[name], 443))
        if not wrong:
            lab.certs.trust().wrap_socket(sock, server_hostname=name).close()
            return
        with pytest.raises(ssl.SSLCertVerificationError, match=wrong):
            lab.certs.trust().wrap_socket(sock, server_hostname=name)


def test_a_canary_has_a_certificate_for_any_name(lab: Lab, room: Naive) -> None:
    with room.room.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        sock.connect((METADATA, 443))
        with lab.certs.trust().wrap_socket(sock, server_hostname="metadata.test") as tls:
            tls.send(b"hello")
            assert b"I sang!" in tls.recv(1000)
    assert lab.heard(room, "canary") == b"hello"


@pytest.mark.parametrize("proxy", ["egress", "naive"], indirect=True)
@pytest.mark.parametrize("host", [API, names.HTTP2])
def test_both_proxies_carry_http2(lab: Lab, proxy: Proxy, host: str) -> None:
    """To a host that speaks it and to one that does not, with the credential."""
    lab.begin(proxy)
    site = lab.h2 if host == names.HTTP2 else lab.api
    with proxy.tunnel(host, alpn=("h2",)) as line:
        stream = Http2(line).ask(host, "/small")
    assert (stream.status, stream.complete) == (200, True)
    (found,) = lab.sent(proxy, site)
    assert found.headers("authorization") == [f"Bearer {lab.secrets.api.value.decode()}"]
    assert [finding for finding in lab.harms(proxy) if finding.harm is not Harm.LOGGED] == []


@pytest.mark.parametrize("proxy", ["egress", "naive"], indirect=True)
def test_both_proxies_carry_a_websocket(lab: Lab, proxy: Proxy) -> None:
    lab.begin(proxy)
    with proxy.tunnel(SOCKETS) as line:
        assert ask_for_websocket(line, SOCKETS).status == 101
        line.send(frame(TEXT, b"hello"))
        (echo,) = (each for each in (read_frame(line), read_frame(line)) if each and each.kind == TEXT)
        line.send(frame(CLOSE, b"\x03\xe8"))
        assert [each.kind for each in frames(line)] == [CLOSE]
    assert echo.data == b"hello"
    is_leak = Harm.LEAKED in {finding.harm for finding in lab.harms(proxy)}
    assert is_leak == (proxy.name == "naive")


# The leak detector ------------------------------------------------------------------------------

SECRET = b"sk-4f1c9a0e7b/+=&<'%~Qx_dead"
WITHIN = b"Authorization: Bearer " + SECRET + b"\r\n"
FILLER = b"." * 2000


def _chunks(data: bytes) -> bytes:
    return b"".join(b"1\r\n%c\r\n" % byte for byte in data) + b"0\r\n\r\n"


def _deflate(data: bytes, bits: int = 15) -> bytes:
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(data) + packer.flush()


def _each(form: bytes) -> Callable[[bytes], bytes]:
    return lambda data: b"".join(form % byte for byte in data)


def _mixed(data: bytes) -> bytes:
    return b"".join((b"%02X" if at % 2 else b"%02x") % byte for at, byte in enumerate(data))


def _lines_of(length: int, data: bytes) -> bytes:
    return b"\r\n".join(data[at : at + length] for at in range(0, len(data), length))


FORMS: list[tuple[str, Callable[[bytes], bytes], bool]] = [
    ("", bytes, True),
    ("chunked", _chunks, True),
    ("gzip", lambda data: gzip.compress(data + FILLER), True),
    ("deflate", lambda data: _deflate(data + FILLER), True),
    ("deflate", lambda data: _deflate(data + FILLER, -15), True),
    ("br", lambda data: brotli.compress(data + FILLER), True),
    ("zstd", lambda data: zstandard.compress(data + FILLER), True),
    ("chunked gzip", lambda data: _chunks(gzip.compress(data + FILLER)), True),
    ("base64", base64.b64encode, True),
    ("base64", lambda data: base64.b64encode(b"1" + data), True),
    ("base64", lambda data: base64.b64encode(b"12" + data), True),
    ("base64", lambda data: base64.urlsafe_b64encode(b"me:" + data).rstrip(b"="), True),
    ("gzip base64", lambda data: gzip.compress(base64.b64encode(data) + FILLER), True),
    ("hex", lambda data: data.hex().encode(), True),
    ("hex", lambda data: b"x" + data.hex().upper().encode(), True),
    ("percent", _each(b"%%%02X"), True),
    ("percent", _each(b"%%%02x"), True),
    ("json", _each(b"\\u00%02x"), True),
    ("json", _each(b"\\x%02X"), True),
    ("html", lambda data: html.escape(data.decode()).encode(), True),
    ("html", _each(b"&#%d;"), True),
    ("broken base64", lambda data: _lines_of(20, base64.b64encode(data)), False),
    ("mixed hex", _mixed, False),
    ("mixed hex", lambda data: data.hex(":").encode(), False),
    ("reversed", lambda data: data[::-1], False),
    ("upper", bytes.upper, True),
    ("gzip upper", lambda data: gzip.compress(data.upper() + FILLER), True),
    ("case", bytes.swapcase, False),
    ("case", bytes.title, False),
    ("base64 upper", lambda data: base64.b64encode(data.upper()), False),
    ("bz2", bz2.compress, False),
    ("base64 base64", lambda data: base64.b64encode(base64.b64encode(data)), False),
    ("gzip reversed", lambda data: gzip.compress(data[::-1] + FILLER), False),
]


@pytest.mark.parametrize(
    ("coats", "encode", "promised"), FORMS, ids=[f"{at}-{form[0]}" for at, form in enumerate(FORMS)]
)
@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\nx: y\r\n\r\n"], ids=["bare", "body"])
def test_a_secret_is_found_in_every_form(
    before: bytes, coats: str, encode: Callable[[bytes], bytes], promised: bool
) -> None:
    found = leaks(before + encode(WITHIN), [("key", SECRET)])
    assert any(" ".join(leak.coats) == coats for leak in found), [str(leak) for leak in found]
    assert any(leak.promised for leak in found) == promised, [str(leak) for leak in found]


def test_sixteen_bytes_in_a_row_are_a_leak_and_fifteen_are_none() -> None:
    assert leaks(b"<" + SECRET[5:21] + b">", [("key", SECRET)]) == [Leak("key", (), 16)]
    assert leaks(b"<" + SECRET[5:20] + b">", [("key", SECRET)]) == []
    assert leaks(b"*" * len(SECRET), [("key", SECRET)]) == []


INNOCENT = (b"", os.urandom(20_000), FILLER, gzip.compress(FILLER), base64.b64encode(os.urandom(3000)))


def test_innocent_bytes_hold_no_secret() -> None:
    for data in INNOCENT:
        assert leaks(data, [("key", SECRET)]) == []


@pytest.mark.parametrize("form", WIRE_FORMS)
def test_the_quick_look_misses_no_run(form: str) -> None:
    """Wherever it begins; and it does not suspect everybody, which would make it a slow one."""
    glance = QuickLeakScan([SECRET])
    for at in range(len(SECRET) - RUN + 1):
        piece = SECRET if form == "16 bytes" or "without" in form else SECRET[at : at + RUN]
        assert glance.suspects(b"GET /" + WIRE_FORMS[form](piece) + b" HTTP/1.1\r\n\r\n"), at
    assert not any(glance.suspects(data) for data in INNOCENT)


MIXED = b"Sk-4F1cA0bE7dGhI2jKlM3nOp"


@pytest.mark.parametrize(
    ("coat", "change"), [("upper", bytes.upper), ("lower", bytes.lower), ("case", bytes.swapcase)]
)
def test_one_case_is_told_from_a_mixture(coat: str, change: Callable[[bytes], bytes]) -> None:
    (leak,) = leaks(b"<" + change(MIXED) + b">", [("key", MIXED)])
    assert leak == Leak("key", (coat,), len(MIXED))
    assert leak.promised == (coat != "case")


# The frame --------------------------------------------------------------------------------------


def _harmless(lab: Lab, proxy: Proxy) -> None:
    proxy.ask(OTHER, request(OTHER))


@pytest.fixture
def impatient(naive: Naive, monkeypatch: pytest.MonkeyPatch) -> Naive:
    """One at which nobody waits for a harm that does not come."""
    monkeypatch.setattr(naive, "patience", 0.0)
    return naive


def test_a_case_that_finds_nothing_on_the_naive_proxy_fails(lab: Lab, impatient: Naive) -> None:
    run = case("S-01", "nothing at all", Harm.REACHED)(_harmless)
    with pytest.raises(AssertionError, match="the naive proxy shows"):
        run(lab, impatient)


def test_another_harm_than_the_named_one_is_not_enough(lab: Lab, impatient: Naive) -> None:
    def steal(lab: Lab, proxy: Proxy) -> None:
        proxy.ask(API, request(API))

    with pytest.raises(AssertionError, match="and not forged"):
        case("S-01", "the wrong one", Harm.FORGED)(steal)(lab, impatient)


def test_a_finding_on_egress_fails(lab: Lab, egress: Egress) -> None:
    _harmless(lab, egress)
    case("S-01", "nothing at all", Harm.SENT)(_harmless)(lab, egress)

    def find(lab: Lab, proxy: Proxy) -> None:
        raise Finding(Harm.SENT, "made up")

    with pytest.raises(AssertionError, match="sent: made up"):
        case("S-01", "made up", Harm.SENT)(find)(lab, egress)


def test_what_a_case_does_not_look_at_is_looked_at(lab: Lab, naive: Naive, tmp_path: Path) -> None:
    """A harm that the case itself says nothing of is found all the same."""
    with lab.egress() as proxy:
        lab.begin(proxy)
        send_from(proxy, (METADATA, 80))
        assert [finding.harm for finding in lab.harms(proxy)] == [Harm.REACHED]
        with pytest.raises(Finding, match="reached: tcp to"):
            lab.hold(proxy)
        lab.hold(proxy, also=[(METADATA, 80)])
    naive_files = {where for where, data in lab.written(naive) if lab.secrets.api.value in data}
    assert {"naive.json"} <= naive_files
    assert any(where.startswith("environ of ") for where in naive_files)


def test_egress_is_held_to_what_it_documents(lab: Lab, egress: Egress, naive: Naive) -> None:
    lab.begin(egress)
    lab.begin(naive)
    for proxy in (egress, naive):
        answer = proxy.ask(EVIL, request(EVIL))
        assert answer.status == 403
        if proxy is egress:
            with pytest.raises(AssertionError, match="expected one of"):
                proxy.expects(answer, (403, "rule.none"))
        else:
            proxy.expects(answer, (200, ""))


# Its end ----------------------------------------------------------------------------------------

_ABANDONS = """
import os, sys
from pathlib import Path
from tests.attack.lab.lab import Lab

lab = Lab(Path(sys.argv[1])).__enter__()
proxy = lab.make_naive()
proxy.start()
print(proxy.process.pid, lab.network._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_nothing_outlives_a_test_that_is_killed(tmp_path: Path) -> None:
    run = [sys.executable, "-c", _ABANDONS, str(tmp_path)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    for pid in done.stdout.split():
        until(lambda pid=pid: not _runs(pid), f"process {pid} to end")  # type: ignore[misc]


def _runs(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()[0]
    except OSError:
        return False
    # One that nobody has waited for yet has ended all the same.
    return state not in "ZX"


_FORBIDDEN = """
import os
from pathlib import Path
from tests.attack.lab.network import Network, NoLabError

os.unshare(os.CLONE_NEWUSER)
for kind in ("user", "mnt"):
    Path(f"/proc/sys/user/max_{kind}_namespaces").write_text("0")
try:
    Network().__enter__()
except NoLabError as error:
    print(error)
"""


def test_where_no_lab_can_be_made_it_says_why() -> None:
    run = [sys.executable, "-c", _FORBIDDEN]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "this kernel lets nobody make a user namespace" in done.stdout
