"""`open_remote`: sandboxes behind a port, with TLS and without, and servers that are not the one meant."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from egress import AsyncSandbox, Sandbox, open_remote
from egress.errors import EgressError
from egress.fleet.errors import FleetFaultError, FleetProtocolError, FleetUnavailableError
from egress.fleet.remote import RemoteRuntime
from egress.runtime.errors import MountError
from egress.runtime.protocol import Output
from egress.runtime.spec import Command
from tests.api_server.port_lab import TOKEN, PortLab, port_lab
from tests.fleet.memory_fleet import spec
from tests.proxy.lab.certificates import Certificates


@contextmanager
def _with_tls(folder: Path, name: str = "localhost") -> Iterator[tuple[PortLab, Path]]:
    certificates = Certificates()
    certificate, key = certificates.write_leaf(folder, name)
    with port_lab(folder, certificate, key) as lab:
        yield lab, certificates.write_ca(folder / "ca.pem")


@pytest.fixture(params=["http", "https"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RemoteRuntime]:
    if request.param == "http":
        with port_lab(tmp_path) as lab, open_remote(f"http://{lab.host}", token=TOKEN) as found:
            yield found
    else:
        with (
            _with_tls(tmp_path) as (lab, ca),
            open_remote(f"https://localhost:{lab.at.port}", token=TOKEN, ca_file=ca) as found,
        ):
            yield found


def test_a_sandbox_is_used_as_if_it_were_here(remote: RemoteRuntime) -> None:
    sandbox = Sandbox.create(name="one", image="any", runtime=remote)
    assert Sandbox.connect("one", runtime=remote).name == "one"
    done = remote.exec("one", Command(argv=("cat",), input=b"x" * 300_000))
    assert done.stdout_bytes == b"x" * 300_000
    assert [each.name for each in Sandbox.list(runtime=remote)] == ["one"]
    sandbox.delete()
    assert remote.list() == ()


async def test_an_awaited_sandbox_takes_the_same_runtime(remote: RemoteRuntime) -> None:
    async with await AsyncSandbox.create(name="one", image="any", runtime=remote) as sandbox:
        assert sandbox.name == "one"
    assert remote.list() == ()


def test_a_thread_that_waits_for_output_does_not_hold_up_input(remote: RemoteRuntime) -> None:
    remote.create(spec("one"))
    remote.start("one")
    got: list[bytes] = []
    arrived = threading.Event()

    def take(data: bytes) -> None:
        got.append(data)
        arrived.set()

    process = remote.spawn("one", Command(argv=("cat",)), Output(stdout=take))
    process.write(b"hello")
    process.close_input()
    assert process.wait(30).exit_code == 0
    assert b"".join(got) == b"hello"
    assert arrived.is_set()


def test_a_sandbox_there_gets_no_folder_of_that_machine(remote: RemoteRuntime, tmp_path: Path) -> None:
    with pytest.raises(MountError):
        Sandbox.create(name="one", image="any", volumes={str(tmp_path): "/data"}, runtime=remote)


def test_the_end_of_the_fleet_is_not_for_this_client(remote: RemoteRuntime) -> None:
    with pytest.raises(FleetFaultError, match="no call has this path"):
        remote.end()


def test_the_token_is_in_no_text_and_no_error(tmp_path: Path) -> None:
    with port_lab(tmp_path) as lab:
        with open_remote(f"http://{lab.host}", token=TOKEN) as remote:
            assert TOKEN not in repr(remote)
        wrong = TOKEN[::-1]
        with pytest.raises(FleetFaultError, match="token is missing or wrong") as caught:
            open_remote(f"http://{lab.host}", token=wrong)
        assert wrong not in f"{caught.value} {caught.value.hint}"


# Servers that are not the one meant ---------------------------------------------------------------


def _error_of(lab: PortLab, host: str, ca: Path | None) -> EgressError:
    with pytest.raises(FleetUnavailableError) as caught:
        open_remote(f"https://{host}:{lab.at.port}", token=TOKEN, ca_file=ca)
    return caught.value


def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    with _with_tls(tmp_path) as (lab, _):
        assert "cannot connect to https://localhost:" in str(_error_of(lab, "localhost", None))
        other = Certificates().write_ca(tmp_path / "other.pem")
        assert "cannot connect to https://localhost:" in str(_error_of(lab, "localhost", other))


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    with _with_tls(tmp_path, "boxes.example.com") as (lab, ca):
        assert "not valid for 'localhost'" in str(_error_of(lab, "localhost", ca))


def test_nobody_at_the_port_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with pytest.raises(FleetUnavailableError, match="connection refused") as caught:
        open_remote(f"http://127.0.0.1:{port}", token=TOKEN)
    assert "--api-listen" in caught.value.hint


@pytest.mark.parametrize("status", [301, 302, 307, 308, 304])
def test_a_redirect_is_an_error_and_is_not_followed(status: int) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as elsewhere,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        place = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/v1/about"

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(
                    f"HTTP/1.1 {status} X\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()
                )

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(FleetProtocolError, match=f"the server answered {status}"):
            open_remote(f"http://127.0.0.1:{server.getsockname()[1]}", token=TOKEN)
        answering.join(30)
        elsewhere.settimeout(0)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
