"""The proxy beside a workload, as `container/compose.yaml` says: on a real engine, seen from the workload."""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Callable
from ipaddress import IPv4Address

import pytest

from egress.runtime.kit import ProxyAddress
from egress.runtime.kit.paths import KitPaths
from egress.runtime.kit.variables import variables
from tests.container.compose_stack import EXPECTED, NAME, NEIGHBOUR, SECRET, ComposeStack

pytestmark = [
    pytest.mark.system("docker-compose"),
    pytest.mark.system("docker", "docker.io"),
    # Images may have to be made first.
    pytest.mark.timeout(400),
]

_RAW = """\
import socket, sys
kind, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
with socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as sock:
    sock.settimeout(1.5)
    try:
        sock.connect((address, port))
        if kind == "udp":
            # A question for the address of `example.com`.
            sock.send(bytes.fromhex("000101000001000000000000076578616d706c6503636f6d0000010001"))
            answer = sock.recv(512)
            print("answered", answer[3] & 15, socket.inet_ntoa(answer[-4:]))
        else:
            print("connected")
    except OSError as error:
        print("no", type(error).__name__)
"""


_LOG = """\
import pathlib
for path in sorted(pathlib.Path("/var/lib/egress/audit").rglob("*")):
    if path.is_file():
        print(path.read_bytes().decode("utf-8", "replace"))
"""


def raw(stack: ComposeStack, kind: str, address: str, port: int) -> str:
    return stack.inside_of("workload", "python3", "-c", _RAW, kind, address, str(port)).stdout.strip()


# What it can do -----------------------------------------------------------------------------------


def test_an_allowed_call_carries_a_credential_that_the_workload_does_not_have(stack: ComposeStack) -> None:
    done = stack.curl(f"https://{NAME}/user")
    assert (done.stdout, done.stderr) == (EXPECTED, "")


def test_a_client_that_knows_no_proxy_gets_there_by_name(stack: ComposeStack) -> None:
    assert stack.curl("--noproxy", "*", f"https://{NAME}/user").stdout == EXPECTED


def test_python_trusts_the_proxy_by_the_variables_alone(stack: ComposeStack) -> None:
    code = (
        f"import urllib.request; print(urllib.request.urlopen('https://{NAME}/', timeout=20).read().decode())"
    )
    done = stack.inside_of("workload", "python3", "-c", code)
    assert done.stdout.strip() == EXPECTED, done.stderr


def test_the_variables_are_those_of_the_kit(stack: ComposeStack) -> None:
    """The file lists them by hand, because compose reads no file out of a volume."""
    wanted = variables(KitPaths("/etc/egress-trust"), ProxyAddress(f"{stack.inside}2"))
    lines = stack.inside_of("workload", "env").stdout.splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    assert {name: found.get(name) for name in wanted} == wanted
    written = stack.inside_of("workload", "cat", "/etc/egress-trust/variables.env").stdout.splitlines()
    assert dict(line.split("=", 1) for line in written) == wanted


# What it cannot do --------------------------------------------------------------------------------


def test_a_host_that_no_rule_names_is_refused(stack: ComposeStack) -> None:
    for way in ((), ("--noproxy", "*")):
        done = stack.curl(*way, "-o", "-", "-w", "%{http_code}", "https://other.example.test/")
        assert '"code": "host.unknown"' in done.stdout
        assert done.stdout.endswith("403")


def test_a_method_that_no_rule_names_is_refused(stack: ComposeStack) -> None:
    done = stack.curl("-X", "DELETE", "-o", "/dev/null", "-w", "%{http_code}", f"https://{NAME}/user")
    assert done.stdout == "403"


def test_there_is_no_way_but_the_proxy(stack: ComposeStack) -> None:
    assert raw(stack, "tcp", f"{stack.inside}2", 443) == "connected", "the good twin"
    others = [f"{stack.outside}{last}" for last in (1, 2, 3)]
    for address in (*others, f"{stack.inside}1", "192.0.2.1", "169.254.169.254", "1.1.1.1"):
        # A refusal would be an answer: somebody is there.
        assert raw(stack, "tcp", address, 443) in ("no TimeoutError", "no OSError"), address
    assert raw(stack, "udp", "8.8.8.8", 53).startswith("no ")
    # What the proxy listens on, and nothing more.
    assert raw(stack, "tcp", f"{stack.inside}2", 22).startswith("no ")


def test_names_of_others_lead_to_the_proxy_whoever_is_asked(stack: ComposeStack) -> None:
    """To the page of the denial; the name server of the engine asks the proxy in its turn."""
    page = f"answered 0 {stack.inside}2"
    assert raw(stack, "udp", f"{stack.inside}2", 53) == page
    assert raw(stack, "udp", "127.0.0.11", 53) in (page, "no TimeoutError")


@pytest.mark.parametrize("host", ["inside", "outside", "loopback", "metadata"])
def test_the_proxy_is_no_way_to_itself_nor_to_its_neighbours(stack: ComposeStack, host: str) -> None:
    """It is the route, so what it can reach and no rule names must stay closed."""
    addresses = {
        "inside": f"{stack.inside}2",
        "outside": f"{stack.outside}3",
        "loopback": "127.0.0.1",
        "metadata": "169.254.169.254",
    }
    # Also where the workload would not send it there by itself.
    assert "403" in stack.curl("--noproxy", "", f"https://{addresses[host]}/").stderr


def test_a_private_address_is_closed_where_no_entry_opens_it(stack: ComposeStack) -> None:
    """The twin of the allowed call: the same server, under a name that rules allow, and no `addresses:`."""
    for way in ((), ("--noproxy", "*")):
        done = stack.curl(*way, "-o", "/dev/null", "-w", "%{http_code}", f"https://{NEIGHBOUR}/")
        assert done.stdout != "200"
    log = stack.inside_of("proxy", *python(_LOG)).stdout
    assert "address." in log


def test_the_workload_holds_no_secret(stack: ComposeStack) -> None:
    marker = stack.inside_of("workload", "sh", "-c", "echo a-needle-for-the-search >/workspace/marker")
    assert marker.returncode == 0, marker.stderr
    search = ["grep", "-rlsaE", "--exclude-dir=proc", "--exclude-dir=sys"]
    where = ["/etc", "/workspace", "/home", "/tmp", "/run", "/workload", "/var", "/dev/shm"]
    wanted = f"{SECRET}|PRIVATE KEY|a-needle-for-the-search"
    found = stack.inside_of("workload", *search, wanted, *where).stdout.split()
    assert found == ["/workspace/marker"]
    assert SECRET not in stack.inside_of("workload", "sh", "-c", "env; cat /proc/*/environ").stdout
    assert SECRET not in json.dumps([stack.state("workload"), stack.state("proxy")])


def test_the_proxy_carries_no_packet_by_itself(stack: ComposeStack) -> None:
    forwarding = stack.inside_of("proxy", *python("print(open('/proc/sys/net/ipv4/ip_forward').read())"))
    assert forwarding.stdout.strip() == "0"


def test_the_way_out_of_the_proxy_is_the_other_network(stack: ComposeStack) -> None:
    """It would be of no use otherwise, and no test here asks anybody outside."""
    done = stack.inside_of("proxy", *python("print(open('/proc/net/route').read())"))
    defaults = [line.split()[2] for line in done.stdout.splitlines() if line.split()[1:2] == ["00000000"]]
    (gateway,) = [IPv4Address(struct.pack("<I", int(each, 16))) for each in defaults]
    assert str(gateway).startswith(stack.outside)


# How it runs --------------------------------------------------------------------------------------


def test_the_proxy_has_no_rights_and_writes_nowhere_else(stack: ComposeStack) -> None:
    status = stack.inside_of("proxy", *python("print(open('/proc/1/status').read())")).stdout
    assert re.search(r"^Uid:\t10001\t10001", status, re.MULTILINE)
    for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"):
        assert re.search(rf"^Cap{kind}:\t0+$", status, re.MULTILINE), kind
    assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
    for folder in ("/", "/opt/egress", "/etc/egress"):
        assert (
            "Read-only file system"
            in stack.inside_of("proxy", *python(f"open('{folder}/x', 'w')"), user="0").stderr
        )


def test_each_line_of_its_log_is_an_event_and_none_warns_of_the_machine(stack: ComposeStack) -> None:
    """Whoever collects the lines of a container gets standard output and standard error in one."""
    lines = stack.log("proxy")
    events = [json.loads(line)["event"] for line in lines]
    assert "proxy.ready" in events
    assert "descriptors.few" not in events


def test_the_proxy_needs_no_shell(stack: ComposeStack) -> None:
    assert stack.inside_of("proxy", "sh", "-c", "true").returncode != 0
    assert stack.inside_of("proxy", "egress", "status").returncode == 0


def test_the_authority_lies_where_the_workload_does_not_see_it(stack: ComposeStack) -> None:
    mounts = stack.state("workload")["Mounts"]
    assert isinstance(mounts, list)
    assert not [each for each in mounts if "state" in str(each.get("Name", ""))]
    trust = next(each for each in mounts if "trust" in str(each.get("Name", "")))
    assert trust["RW"] is False


def test_a_proxy_that_is_restarted_goes_on_working(stack: ComposeStack) -> None:
    """The workload keeps its certificate, its address and its way; in between it has none at all."""
    assert stack.curl(f"https://{NAME}/").stdout == EXPECTED
    stack.engine("stop", "--time", "3", stack.container("proxy"))
    briefly = ("--max-time", "3", f"https://{NAME}/")
    assert stack.curl(*briefly).returncode != 0
    assert stack.curl("--noproxy", "*", *briefly).returncode != 0
    stack.engine("start", stack.container("proxy"))
    stack.wait_until_well()
    assert stack.curl(f"https://{NAME}/").stdout == EXPECTED
    assert stack.curl("--noproxy", "*", f"https://{NAME}/").stdout == EXPECTED


def test_a_secret_that_changes_is_used_without_a_restart(stack: ComposeStack) -> None:
    """In place: what is bound is the file, so another one that takes its name would not be seen."""
    token = stack.folder / "token"
    try:
        token.write_text("another-secret-44", "utf-8")
        wait_for(lambda: stack.curl(f"https://{NAME}/").stdout != EXPECTED)
    finally:
        token.write_text(SECRET, "utf-8")
    wait_for(lambda: stack.curl(f"https://{NAME}/").stdout == EXPECTED)


def test_rules_that_are_replaced_take_effect(stack: ComposeStack) -> None:
    """By a rename, as editors do it."""
    rules = stack.folder / "rules/hosts.yaml"
    before = rules.read_text("utf-8")

    def put(text: str) -> None:
        scratch = rules.with_name("scratch")
        scratch.write_text(text, "utf-8")
        scratch.replace(rules)

    try:
        put(before.replace("methods: [GET]", "methods: [HEAD]"))
        wait_for(lambda: stack.curl(f"https://{NAME}/").stdout != EXPECTED)
    finally:
        put(before)
    wait_for(lambda: stack.curl(f"https://{NAME}/").stdout == EXPECTED)


def test_the_commands_work_inside_the_proxy(stack: ComposeStack) -> None:
    verified = stack.inside_of("proxy", "egress", "log", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    explain = ("egress", "explain", "--rules", "/etc/egress/hosts.yaml", "GET")
    explained = stack.inside_of("proxy", *explain, f"https://{NAME}/user")
    assert (explained.returncode, explained.stderr) == (0, "")


def python(code: str) -> list[str]:
    return ["/opt/egress/bin/python", "-c", code]


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.3)
