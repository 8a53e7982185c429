"""The network of a sandbox, looked at from within."""

from __future__ import annotations

from tests.unit.runtime.namespace.inside_code import needs_namespaces, run_inside


def test_there_is_loopback_with_the_doors_address_and_nothing_else() -> None:
    needs_namespaces()
    code = """
user_namespaces.enter(0x40020000, ())
network.prepare("198.18.0.2")
print([name for _, name in socket.if_nameindex() if name in ("lo", "eth0")])
print(open("/proc/net/if_inet6").read() == "" if os.path.exists("/proc/net/if_inet6") else True)
for host in ("127.0.0.1", "198.18.0.2", "198.18.0.3"):
    try:
        sock = socket.create_server((host, 80))
        sock.close()
        print("here")
    except OSError as error:
        print(error.errno)
"""
    assert run_inside(code).splitlines() == ["['lo']", "True", "here", "here", "99"]
