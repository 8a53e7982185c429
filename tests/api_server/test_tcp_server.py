"""The port of the API: what keeps it from being opened, its token, its certificate, and its end."""

from __future__ import annotations

import http.client
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from egress.api_server import tcp_server
from egress.api_server.tcp_server import ApiPort, ApiPortSettings
from egress.errors import ContentError, EgressError, UnreadableError, UsageError
from egress.proxy.setting_values import ListenAddress
from tests.api_server.port_lab import TOKEN, port_lab, port_settings, received, token_file
from tests.proxy.lab.certificates import Certificates


def _cert(folder: Path) -> tuple[Path, Path]:
    return Certificates().write_leaf(folder, "boxes.example.com")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "10.0.0.1", "2001:db8::1"])
def test_beyond_loopback_there_is_no_port_without_tls(tmp_path: Path, host: str) -> None:
    with pytest.raises(UsageError, match="needs TLS"):
        ApiPort(port_settings(tmp_path, host, names=("boxes.example.com",)))


def test_a_certificate_and_its_key_belong_together(tmp_path: Path) -> None:
    one = tmp_path / "one.pem"
    for settings in (port_settings(tmp_path, certificate=one), port_settings(tmp_path, key=one)):
        with pytest.raises(UsageError, match="belong together"):
            settings.check()


def test_every_address_needs_a_name(tmp_path: Path) -> None:
    certificate, key = _cert(tmp_path)
    settings = port_settings(tmp_path, "0.0.0.0", certificate=certificate, key=key)
    with pytest.raises(UsageError, match="no address that clients can name"):
        settings.check()
    named = replace(settings, names=("boxes.example.com",))
    named.check()
    assert named.url == "https://boxes.example.com:0"


@pytest.mark.parametrize("name", ["", "a b", "a:80", "http://a", "[::1]", "a/b", "a@b"])
def test_a_name_is_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not a host name"):
        port_settings(tmp_path, names=(name,)).check()


def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = ListenAddress("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(UnreadableError, match=f"cannot be served on {at}"):
            ApiPort(replace(port_settings(tmp_path), at=at))


# The token ----------------------------------------------------------------------------------------


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "state" / "api.token"
    settings = ApiPortSettings(at=ListenAddress("127.0.0.1", 0), token_file=file, is_token_named=False)
    ApiPort(settings).close()
    first = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(first.strip()) == 43
    ApiPort(settings).close()
    assert file.read_text() == first
    file.unlink()
    ApiPort(settings).close()
    assert file.read_text() != first


def _short(file: Path) -> None:
    file.write_text("a" * 31)


def _spaced(file: Path) -> None:
    file.write_text(f"{TOKEN} {TOKEN}")


def _two_lines(file: Path) -> None:
    file.write_text(f"{TOKEN}\n{TOKEN}\n")


def _foreign(file: Path) -> None:
    file.write_text(f"{TOKEN}é")


def _open(file: Path) -> None:
    file.chmod(0o644)


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        (_short, ContentError),
        (_spaced, ContentError),
        (_two_lines, ContentError),
        (_foreign, ContentError),
        (_open, UnreadableError),
        (Path.unlink, UnreadableError),
    ],
)
def test_a_token_that_cannot_be_relied_on_opens_no_port(
    tmp_path: Path, harm: Callable[[Path], None], error: type[EgressError]
) -> None:
    settings = port_settings(tmp_path)
    harm(settings.token_file)
    with pytest.raises(error) as caught:
        ApiPort(settings)
    assert TOKEN not in f"{caught.value} {caught.value.hint}"
    assert str(settings.token_file) in str(caught.value)


def test_the_token_is_nowhere_in_the_port(tmp_path: Path) -> None:
    with port_lab(tmp_path) as lab:
        assert TOKEN not in repr(vars(lab.port))


# TLS ----------------------------------------------------------------------------------------------


def test_with_a_certificate_there_is_tls_alone(tmp_path: Path) -> None:
    certificates = Certificates()
    certificate, key = certificates.write_leaf(tmp_path, "boxes.example.com")
    with port_lab(tmp_path, certificate=certificate, key=key) as lab:
        context = certificates.trust()
        sock = socket.create_connection((lab.at.host, lab.at.port), 30)
        with closing(context.wrap_socket(sock, server_hostname="boxes.example.com")) as secure:
            assert secure.version() == "TLSv1.3"
            head = f"Host: boxes.example.com\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close"
            secure.sendall(f"GET /v1/about HTTP/1.1\r\n{head}\r\n\r\n".encode())
            assert secure.recv(12) == b"HTTP/1.1 200"
        assert lab.send(f"GET /v1/about HTTP/1.1\r\n{head}\r\n\r\n").startswith(b"HTTP") is False
        # The file has gone, and the port still has its certificate.
        certificate.unlink()
        sock = socket.create_connection((lab.at.host, lab.at.port), 30)
        context.wrap_socket(sock, server_hostname="boxes.example.com").close()


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    certificate, key = _cert(tmp_path)
    certificate.unlink()
    with pytest.raises(UnreadableError, match="cannot be used"):
        ApiPort(port_settings(tmp_path, certificate=certificate, key=key))


# Silence, and the end -----------------------------------------------------------------------------


def test_a_slow_head_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_server, "_REQUEST_SECONDS", 0.05)
    with port_lab(tmp_path) as lab, socket.create_connection((lab.at.host, lab.at.port), 30) as sock:
        sock.sendall(b"GET /v1/about HTTP/1.1\r\nHost: loc")
        assert received(sock) == b""


def test_the_end_closes_streams_and_the_port(tmp_path: Path) -> None:
    with port_lab(tmp_path) as lab:
        connection = http.client.HTTPConnection(lab.at.host, lab.at.port, timeout=30)
        connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {TOKEN}"})
        stream = connection.getresponse()
        ending = threading.Thread(target=lab.port.close)
        ending.start()
        with pytest.raises((OSError, http.client.HTTPException)):
            stream.read()
        ending.join(30)
        assert not ending.is_alive()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((lab.at.host, lab.at.port), 30)
        connection.close()


def test_a_port_that_was_never_served_is_closed(tmp_path: Path) -> None:
    port = ApiPort(replace(port_settings(tmp_path), token_file=token_file(tmp_path)))
    port.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((port.at.host, port.at.port), 30)
