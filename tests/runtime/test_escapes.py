"""Ways out of a sandbox that are not the proxy: S-40, S-41 and S-44 to S-53, from inside, with a real engine.

Each file of ways has its good twins: what the proxy lets through works from the same sandbox, with the
credential that the sandbox never had; and a plain container comes through where the sandbox does not, so that
the probe is known to be able to.
"""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import pytest

from egress.runtime.descriptors import MOST
from egress.runtime.docker.engine import Engine
from egress.runtime.spec import Command
from tests.proxy.served import until
from tests.runtime.house import NAME, SECRET, Box, House
from tests.runtime.outside import METADATA, PROBE, Attempt, Outside, lines

_TRYING = """
import socket, sys
while True:
    for host in sys.argv[1:]:
        for port in (53, 443):
            with socket.socket() as sock:
                sock.settimeout(0.05)
                print("refused" if sock.connect_ex((host, port)) else "reached")
"""


@pytest.fixture
def box(house: House, request: pytest.FixtureRequest) -> Iterator[Box]:
    name = f"box-{abs(hash(request.node.name)) % 10**9}"
    yield house.box(name)
    house.runtime.remove(name)


@pytest.fixture
def outside(image: str) -> Iterator[Outside]:
    with Outside(image) as outside:
        yield outside


def probed(box: Box, attempts: Iterable[Attempt], timeout: float = 60) -> Mapping[str, object]:
    """How far the attempts came in the sandbox."""
    result = box.run("python3", "-c", PROBE, input=lines(attempts), timeout=timeout).check()
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def assert_works(box: Box) -> None:
    """The good twin of everything: the proxy is reached by name, and adds what the sandbox does not have."""
    seen = box.house.upstream.seen
    before = len(seen)
    for options in ((), ("--noproxy", "*")):
        assert box.get("/ok", *options).check().stdout == b"hello from outside\n"
    assert [each.authorization for each in seen[before:]] == [f"Bearer {SECRET}"] * 2


def assert_recorded(box: Box, host: str) -> None:
    """What reached the door and was refused there is in the records, as this sandbox's."""
    refused = box.house.served.records
    until(
        lambda: (box.name, host) in [(each["sandbox"], each["host"]) for each in refused("refusal")],
        "the refusal in the records",
    )


def gateway(box: Box) -> str:
    """The address that the engine calls the gateway of the sandbox's network."""
    return str(network(box)["IPAM"]["Config"][0]["Gateway"])  # type: ignore[index]


def network(box: Box) -> Mapping[str, object]:
    runtime = box.house.runtime
    return runtime._engine.inspect_network(runtime._boxes[box.name].cell.network.id)


def address(box: Box) -> str:
    return str(box.house.runtime._boxes[box.name].cell.network.addresses.sandbox)


def door(box: Box) -> str:
    return box.house.runtime._boxes[box.name].cell.door


# The network --------------------------------------------------------------------------------------


def test_nothing_leads_to_the_internet(box: Box, outside: Outside) -> None:
    """S-44, S-45, S-46: TCP, UDP, ICMP and DNS, by address."""
    there = outside.internet
    attempts: list[Attempt] = [
        *((f"tcp {port}", "tcp", there, port) for port in (53, 80, 443, 9999)),
        *((f"udp {port}", "udp", there, port) for port in (53, 443, 9999)),
        ("ping", "ping", there, 2),
        ("dns", "name", "data.of.mine.example.test", there),
    ]
    assert set(outside.twin(attempts).values()) == {"reached"}
    assert "reached" not in probed(box, attempts).values()
    assert_works(box)


def test_nothing_leads_to_this_machine(box: Box, outside: Outside) -> None:
    """S-48: every address of the machine, the gateway that there is not, and names for the machine."""
    machine: list[Attempt] = [(each, "tcp", each, outside.port) for each in outside.machine]
    more: list[Attempt] = [
        ("gateway", "tcp", gateway(box), outside.port),
        ("gateway by udp", "udp", gateway(box), 53),
        ("gateway by ping", "ping", gateway(box), 2),
        ("metadata", "tcp", METADATA, 80),
        ("host.docker.internal", "name", "host.docker.internal"),
        ("gateway.docker.internal", "name", "gateway.docker.internal"),
    ]
    assert set(outside.twin(machine).values()) == {"reached"}
    assert "reached" not in probed(box, [*machine, *more]).values()
    assert_works(box)


def test_a_client_that_is_told_to_take_no_proxy_comes_nowhere_by_address(box: Box, outside: Outside) -> None:
    """S-44, as people would write it."""
    for url in (f"http://{outside.internet}/", f"https://{outside.internet}/"):
        result = box.run("curl", "-sSk", "--noproxy", "*", "--max-time", "6", url)
        assert result.exit_code in (7, 28), result
    # With the proxy it is refused there.
    refused = box.run("curl", "-sS", "--max-time", "6", f"http://{outside.internet}/")
    assert b"host." in refused.stdout
    assert_recorded(box, outside.internet)
    assert_works(box)


def test_nothing_leads_to_another_sandbox(house: House, box: Box) -> None:
    """S-48, S-50: neither to it nor to its door, although both are at the same engine."""
    other = house.box("other")
    try:
        # It listens, and hears itself.
        server = house.runtime.spawn(
            "other", Command(argv=("python3", "-m", "http.server", "8000", "--bind", "0.0.0.0"))
        )
        url = f"http://{address(other)}:8000/"
        until(lambda: not other.run("curl", "-s", "--noproxy", "*", url).exit_code, "the other to listen")
        attempts: list[Attempt] = [
            ("sandbox", "tcp", address(other), 8000),
            ("sandbox by ping", "ping", address(other), 2),
            *((f"door {port}", "tcp", door(other), port) for port in (80, 443, 3128)),
            ("door's names", "name", NAME, door(other)),
        ]
        assert "reached" not in probed(box, attempts).values()
        server.kill()
    finally:
        house.runtime.remove("other")
    assert_works(box)


def test_ipv6_is_off(box: Box) -> None:
    """S-45: no address of it, no way to get one, and the machine's own end of the bridge is not reached."""
    attempts: list[Attempt] = [
        ("tcp", "tcp", "fe80::1%eth0", 80),
        ("everybody", "udp", "ff02::1%eth0", 5353),
        ("enable", "enable_ipv6"),
    ]
    assert "reached" not in probed(box, attempts).values()
    addresses = box.run("cat", "/proc/net/if_inet6").stdout
    assert addresses == b""


def test_no_packet_is_made_by_hand(box: Box, outside: Outside) -> None:
    """S-45, S-50: raw sockets, frames of any kind (so no ARP), other protocols, and addresses of others."""
    twin = outside.twin([("packets", "packets"), ("raw", "raw"), ("raw ping", "ping", outside.internet, 3)])
    assert set(twin.values()) == {"reached"}
    taken = address(box).rsplit(".", 1)[0] + ".250"
    attempts: list[Attempt] = [
        ("packets", "packets"),
        ("raw", "raw"),
        ("raw ping", "ping", door(box), 3),
        ("sctp", "sctp", door(box), 443),
        ("address", "take_address", taken),
        ("its own address", "spoof", address(box), door(box), 53),
        ("another's address", "spoof", taken, door(box), 53),
        ("the door's address", "spoof", door(box), door(box), 53),
        ("a neighbour's address", "spoof", "198.18.77.3", door(box), 53),
    ]
    found = dict(probed(box, attempts))
    # So the others fail for whose addresses they are.
    assert found.pop("its own address") == "reached"
    assert "reached" not in found.values()
    # Its own door can be pinged: that is as far as it goes.
    assert probed(box, [("ping", "ping", door(box), 2)]) == {"ping": "reached"}


def test_the_door_has_the_ports_it_was_asked_for_and_no_others(box: Box) -> None:
    """S-48, S-49: nothing of the proxy that is for its operator is there."""
    found = probed(box, [("ports", "open_ports", door(box))], timeout=100)
    assert found == {"ports": sorted([53, 80, 443, 3128, box.house.upstream.port])}


def test_a_hypervisor_is_out_of_reach_or_the_runtime_says_that_it_may_not_be(box: Box) -> None:
    """Sockets of AF_VSOCK know no networks. Engines refuse them since version 23."""
    found = probed(box, [("vsock", "vsock")])["vsock"]
    warned = any("AF_VSOCK" in caution for caution in box.house.runtime.cautions)
    assert (found == "reached") <= warned


# Names --------------------------------------------------------------------------------------------


def test_names_are_answered_by_the_door_alone(box: Box, outside: Outside) -> None:
    """S-46, S-47: an allowed name leads to the door; data in others goes nowhere, whoever is asked."""
    secret = "c2vzyw1l.exfil.example.test"
    attempts: list[Attempt] = [
        ("by the system", "name", secret),
        ("by the door", "name", secret, door(box)),
        ("by the engine", "name", secret, "127.0.0.11"),
        ("by the public", "name", secret, "8.8.8.8"),
        ("by another", "name", secret, outside.internet),
        ("by the gateway", "name", secret, gateway(box)),
    ]
    assert "reached" not in probed(box, attempts).values()
    found = box.run("getent", "hosts", NAME).check().text
    assert found.split() == [door(box), NAME]
    assert_recorded(box, secret)


def test_what_is_for_the_operator_of_the_proxy_is_not_there(box: Box) -> None:
    """S-49: neither at the door, nor by the proxy at any address of this machine, nor by a name for it."""
    status, known = box.house.served.ask("GET", "/status")
    assert (status, bool(known["sandboxes"])) == (200, True)
    for host in (door(box), "127.0.0.1", "localhost", "169.254.169.254", "egress"):
        for path in ("/status", "/metrics", "/sandboxes"):
            for options in ((), ("--noproxy", "*", "--connect-to", f"::{door(box)}:80")):
                found = box.run("curl", "-s", "--max-time", "6", *options, f"http://{host}{path}")
                assert b"sandboxes" not in found.stdout
                assert found.exit_code or b"host." in found.stdout or b"request." in found.stdout, found
    assert_recorded(box, METADATA)
    assert_works(box)


# What it is -----------------------------------------------------------------------------------------


def test_what_waits_for_the_end_of_its_runtime_is_not_stopped(box: Box) -> None:
    """Held, or killed quietly, it would let the sandbox outlive a runtime that was killed."""
    script = (
        'for place in /proc/[0-9]*; do case $(tr "\\0" " " <"$place/cmdline") in "/bin/sh -c if"*)'
        ' echo found; kill -STOP "${place#/proc/}" 2>/dev/null && echo stopped ;; esac; done; true'
    )
    assert box.sh(script).text == "found\n"


def test_it_has_no_privilege(box: Box) -> None:
    """S-51."""
    status = dict(line.split(":\t", 1) for line in box.run("cat", "/proc/self/status").text.splitlines())
    assert {status[each] for each in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["Uid"].split() == ["1000"] * 4
    for words in (
        ("mount", "-t", "tmpfs", "x", "/tmp"),
        ("unshare", "-U", "true"),
        ("unshare", "-n", "true"),
    ):
        assert box.run(*words).exit_code, words
    assert box.sh("echo 1 > /proc/sys/kernel/core_pattern").exit_code
    script = 'for f in /sys/fs/cgroup/*/release_agent; do echo x > "$f" && exit 0; done; exit 1'
    assert box.sh(script).exit_code


def test_what_the_kernel_counts_for_a_user_of_the_machine_is_bounded(box: Box) -> None:
    """Its user has a number that somebody of the machine may have too; see `egress.runtime.descriptors`."""
    assert box.sh("ulimit -Hn; ulimit -Sn").stdout == b"%d\n%d\n" % (MOST, MOST)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard


def test_root_in_a_sandbox_is_nobody_more(house: House, outside: Outside) -> None:
    """S-44 to S-46, S-50, S-51: an image may insist on it. Nor does it become another user."""
    box = house.box("root", user=0, group=0)
    try:
        assert box.run("id", "-u").text == "0\n"
        attempts: list[Attempt] = [
            ("tcp", "tcp", outside.internet, 443), ("udp", "udp", outside.internet, 443),
            ("machine", "tcp", outside.machine[0], outside.port), ("ping", "ping", outside.internet, 2),
            ("packets", "packets"), ("raw", "raw"), ("address", "take_address", "198.18.77.3"),
            ("neighbour", "spoof", "198.18.77.3", door(box), 53), ("enable", "enable_ipv6"),
            ("door's user", "become", 10001), ("another user", "become", 1000),
        ]  # fmt: skip
        assert "reached" not in probed(box, attempts).values()
        for words in (("mount", "-t", "tmpfs", "x", "/tmp"), ("unshare", "-n", "true")):
            assert box.run(*words).exit_code, words
        assert_works(box)
    finally:
        house.runtime.remove("root")


def test_a_program_that_would_make_somebody_root_does_not(box: Box, outside: Outside, engine: Engine) -> None:
    """S-51: one with the bit for it, which root of the engine has put there."""
    make = ("sh", "-c", "cat /usr/bin/id >/p && chmod 4755 /p")
    twin = outside.plain()
    found = []
    for container in (twin, box.house.runtime._boxes[box.name].container):
        outside.run(container, *make, user="0")
        found.append(outside.run(container, "/p", "-u", user="1000"))
    assert found == ["0\n", "1000\n"]


def test_nothing_of_others_is_seen(box: Box) -> None:
    """S-48, S-51: processes, their memory and environment, and sockets that have a name and no file."""
    pid = box.house.served.process.pid
    assert b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert box.sh('[ -e "/proc/$1" ]', str(pid)).exit_code
    seen = box.sh("cat /proc/[0-9]*/cmdline").stdout
    assert b"lifeline" in seen
    assert not any(word in seen for word in (b"serve", b"dockerd", b"program.py", b"pytest"))
    for path in ("/proc/1/root/etc/shadow", "/proc/kcore", "/proc/1/mem", "/proc/sysrq-trigger"):
        assert box.sh('head -c 1 "$1" || echo x > "$1"', path).exit_code, path
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(f"\0egress-test-{pid}")
        sock.listen()
        script = "import socket, sys; socket.socket(socket.AF_UNIX).connect(chr(0) + sys.argv[1])"
        command = ("python3", "-c", script, f"egress-test-{pid}")
        here = subprocess.run([sys.executable, *command[1:]], check=False)
        assert here.returncode == 0
        assert b"ConnectionRefusedError" in box.run(*command).stderr


def test_nothing_of_the_machine_is_mounted(box: Box) -> None:
    """S-49, S-51: no socket of an engine or a proxy, and of the host what was laid for it, read-only."""
    found = box.sh("find / -xdev -type s 2>/dev/null; ls /var/run/docker.sock /run/docker.sock 2>/dev/null")
    assert found.stdout == b""
    mounts = [line.split() for line in box.run("cat", "/proc/self/mounts").text.splitlines()]
    laid = {each[1]: each[3].split(",") for each in mounts if each[0].startswith("/dev/")}
    assert {target for target, options in laid.items() if "rw" in options} <= {
        *("/etc/hostname", "/etc/hosts"),  # the engine's own, about this container
        "/workspace",
    }
    assert {"/etc/resolv.conf", "/.egress/supervisor.sh", "/etc/egress"} <= laid.keys()
    script = 'for f in /etc/resolv.conf /.egress/* /etc/egress/*; do echo >> "$f" && exit 0; done; exit 1'
    assert box.sh(script).exit_code


def test_nothing_that_is_secret_is_in_it(box: Box, engine: Engine) -> None:
    """S-40, S-41: neither credential nor key, in it or in what the engine knows of it."""
    assert_works(box)
    held = box.house.runtime._boxes[box.name]
    for container in (each for each in engine.containers() if held.cell.id in each.name):
        known = json.dumps(engine._api.inspect_container(container.id))
        assert SECRET not in known
        assert "PRIVATE KEY" not in known
    assert SECRET not in box.run("env").text
    script = 'grep -rlsE -e "$1" -e "PRIVATE KEY" /etc /.egress /tmp /workspace /home /run 2>/dev/null'
    assert box.sh(script, SECRET).stdout == b""
    files = [path for path in Path(held.cell.folder).rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert not {SECRET.encode(), b"PRIVATE KEY"} & set(chain(path.read_bytes().split())), path


# The proxy's end ------------------------------------------------------------------------------------


def test_without_a_proxy_there_is_no_network(own_house: House, outside: Outside) -> None:
    """S-52, S-53: nothing is open meanwhile, and a proxy that comes back finds the same doors."""
    box = own_house.box("box")
    assert_works(box)
    trying = Command(argv=("python3", "-u", "-c", _TRYING, outside.internet, outside.machine[0]))
    loop = own_house.runtime.spawn("box", trying)
    own_house.served.process.send_signal(signal.SIGKILL)
    own_house.served.process.wait()
    attempts: list[Attempt] = [
        ("internet", "tcp", outside.internet, 443),
        ("machine", "tcp", outside.machine[0], outside.port),
        ("door", "tcp", door(box), 443),
        ("names", "name", NAME),
    ]
    assert "reached" not in probed(box, attempts).values()
    assert box.get("/none", "--max-time", "3").exit_code
    before = len(own_house.upstream.seen)
    own_house.served.kill()
    own_house.served.start()
    until(lambda: box.get("/again", "--max-time", "3").exit_code == 0, "the sandbox to be served again")
    assert_works(box)
    # All the while, without a window between.
    loop.kill(0)
    tried = loop.wait(30).text.split()
    assert len(tried) > 20
    assert "reached" not in tried
    assert {each.authorization for each in own_house.upstream.seen[before:]} == {f"Bearer {SECRET}"}
    assert [each["sandbox"] for each in own_house.served.records("sandbox.added")] == ["box", "box"]


def test_a_door_that_dies_takes_the_network_along(own_house: House, outside: Outside, engine: Engine) -> None:
    """S-52: the other half of the wall."""
    box = own_house.box("box")
    assert_works(box)
    held = own_house.runtime._boxes["box"]
    engine.remove_container(f"egress-door-{held.cell.id}")
    attempts: list[Attempt] = [
        ("internet", "tcp", outside.internet, 443),
        ("machine", "tcp", outside.machine[0], outside.port),
        ("door", "tcp", door(box), 443),
        ("names", "name", NAME),
    ]
    assert "reached" not in probed(box, attempts).values()
