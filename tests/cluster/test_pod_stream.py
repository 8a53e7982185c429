"""The opening of a stream: nothing is said to a server that has not proved its name."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest
import trustme

from egress.cluster.pod_stream import open_stream
from egress.errors import UnreadableError, UsageError
from tests.cluster.fake_stream_server import played

PATH = "/api/v1/namespaces/agents/pods/one/exec?command=ls"


def test_nothing_is_said_to_a_server_of_another_authority() -> None:
    with played(lambda _: None) as (api, peers):
        other = replace(api, authority=trustme.CA().cert_pem.bytes())
        with pytest.raises(UnreadableError, match="opened no stream"):
            open_stream(other, PATH, "v5.channel.k8s.io")
    assert peers == []


def test_a_port_without_a_server_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with played(lambda _: None) as (api, _):
        with pytest.raises(UnreadableError, match=f"127.0.0.1:{port} opened no stream"):
            open_stream(replace(api, port=port), PATH, "v5.channel.k8s.io")
        open_stream(api, PATH, "v5.channel.k8s.io").close()


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/\u00fc"])
def test_a_path_cannot_begin_a_header(path: str) -> None:
    with played(lambda _: None) as (api, peers):
        with pytest.raises(UsageError):
            open_stream(api, path, "v5.channel.k8s.io")
        open_stream(api, PATH, "v5.channel.k8s.io").close()
    assert len(peers) == 1
