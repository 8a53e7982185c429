"""The TypeScript client and servers of every kind: a port with TLS, servers that break the protocol, none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.environment import runtime_dir
from egress.errors import UnreadableError
from egress.fleet.folders import SOCKET_NAME
from tests.api_server.port_lab import TOKEN, port_lab
from tests.integrations.packages import Workshop
from tests.proxy.lab.certificates import Certificates

pytestmark = [pytest.mark.system("npm", "npm"), pytest.mark.timeout(300)]

ENVIRONMENTS: list[dict[str, str]] = [
    {"HOME": "/home/you"},
    {"HOME": "/home/you", "XDG_STATE_HOME": "/state"},
    {"HOME": "/home/you", "XDG_STATE_HOME": "state"},
    {"HOME": "/home/you", "EGRESS_STATE_DIR": "/own", "XDG_STATE_HOME": "/state"},
    {"HOME": "/home/you", "XDG_RUNTIME_DIR": "/run/user/1", "EGRESS_STATE_DIR": "/own"},
    {"HOME": "/home/you", "XDG_RUNTIME_DIR": "run"},
    {"HOME": "/home/you", "EGRESS_RUNTIME_DIR": "/r", "XDG_RUNTIME_DIR": "/run/user/1"},
    {"HOME": "/home/you", "EGRESS_RUNTIME_DIR": ""},
    {"HOME": "you"},
    {},
]


def test_servers_that_break_the_protocol_and_settings_that_cannot_be(workshop: Workshop, node: Path) -> None:
    workshop.test(node, "connection.test.js")


def test_the_socket_is_where_egress_puts_it(workshop: Workshop, node: Path) -> None:
    def expected(env: dict[str, str]) -> str:
        try:
            return str(runtime_dir(env) / SOCKET_NAME)
        except UnreadableError:
            return "client.settings"

    ran = workshop.run(node, "built/socket_paths.js", json.dumps(ENVIRONMENTS))
    assert json.loads(ran.stdout) == [expected(env) for env in ENVIRONMENTS]


def test_a_port_is_used_with_its_token_and_its_authority(
    workshop: Workshop, node: Path, tmp_path: Path
) -> None:
    certificates = Certificates()
    chain, key = certificates.write_leaf(tmp_path, "127.0.0.1")
    with port_lab(tmp_path, chain, key) as lab:
        lab.running("one")
        env = {"URL": f"https://{lab.at}", "TOKEN": TOKEN, "CA": certificates.ca_pem.decode()}
        # Which would switch the check of certificates off.
        env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0"
        ran = workshop.run(node, "built/port.js", env=env)
    assert TOKEN not in ran.stdout
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "right": "one",
        "wrong token": "api.unauthorized",
        "unknown authority": "client.connection",
        "only at the socket": "api.not_found",
    }
