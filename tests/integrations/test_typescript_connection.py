"""The TypeScript client and servers of every kind: a port with TLS, servers that break the protocol, none."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.environment import runtime_dir
from egress.errors import UnreadableError
from egress.fleet.folders import SOCKET_NAME
from tests.api_server.port_lab import TOKEN, port_lab
from tests.cli.command import environment
from tests.integrations.packages import Workshop
from tests.proxy.lab.certificates import Certificates

pytestmark = pytest.mark.system("npm", "npm")

type Parse = Callable[[list[bytes]], list[Any]]

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
    ran = workshop.run(node, "--test", "built/connection.test.js")
    assert ran.returncode == 0, ran.stdout


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
        ran = workshop.run(node, "built/port.js", env=env)
    assert TOKEN not in ran.stdout
    assert json.loads(ran.stdout) == {
        "right": "one",
        "wrong token": "api.unauthorized",
        "unknown authority": "client.connection",
        "only at the socket": "api.not_found",
    }


# The parser of events ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parse(workshop: Workshop, node: Path) -> Iterator[Parse]:
    """The parser of the client, in one process for all examples."""
    with subprocess.Popen(
        [node, "built/parser.js"],
        cwd=workshop.folder,
        env=environment(workshop.folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as peer:
        asking, answering = peer.stdin, peer.stdout
        assert asking is not None
        assert answering is not None

        def ask(pieces: list[bytes]) -> list[Any]:
            asking.write(json.dumps([base64.b64encode(piece).decode() for piece in pieces]) + "\n")
            asking.flush()
            found: list[Any] = json.loads(answering.readline())
            return found

        yield ask


NAMES = st.sampled_from(["stdout", "stderr", "exit", "change", "sandbox"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abcé", min_size=1), inner, max_size=3)
    ),
    max_leaves=5,
)
COMMENTS = st.sampled_from([b"", b": alive\n\n", b"\n", b": x\r\n\r\n"])


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The bytes in pieces that end at these places."""
    ends = sorted({place % (len(data) + 1) for place in places})
    return [data[begin:end] for begin, end in zip([0, *ends], [*ends, len(data)], strict=True)]


@given(
    events=st.lists(st.tuples(COMMENTS, NAMES, VALUES), max_size=5),
    places=st.lists(st.integers(0), max_size=8),
)
def test_events_are_the_same_however_the_bytes_are_cut(
    parse: Parse, events: list[tuple[bytes, str, Any]], places: list[int]
) -> None:
    data = b"".join(
        comment
        + f"event: {name}\n".encode()
        + b"data: "
        + json.dumps(value, ensure_ascii=False).encode()
        + b"\n\n"
        for comment, name, value in events
    )
    assert parse(cut(data, places)) == [[name, value] for _, name, value in events]


@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([b"data: {", b"}\n\n", b"event:", b"\n"]), max_size=8)
)
def test_any_other_bytes_are_no_event_or_an_error_of_the_protocol(parse: Parse, pieces: list[bytes]) -> None:
    found = parse(pieces)
    assert all(isinstance(each, list) for each in found[:-1])
    if found and not isinstance(found[-1], list):
        assert found[-1] == "client.protocol"
