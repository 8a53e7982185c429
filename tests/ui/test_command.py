"""`egress ui` as people run it: a process on a terminal, a link, and Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import command, environment
from tests.ui.page_client import PageClient
from tests.ui.terminal import CTRL_C, Terminal
from tests.unit.ui.page_app import denied, line, rules, write

LINK = r"http://127\.0\.0\.1:\d+/login\?token=[\w-]+"


def words(folder: Path) -> list[str]:
    log = write(folder, [line(1), denied(2)])
    return command(["ui", "--dir", str(log), "--rules", str(rules(folder)), "--listen", "127.0.0.1:0"])


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with Terminal(words(tmp_path), tmp_path, environment(tmp_path)) as found:
        yield found


def test_the_link_leads_to_the_list_and_the_list_to_the_yaml(terminal: Terminal) -> None:
    visitor = PageClient(terminal.until(LINK)[0])
    assert visitor.first.status == 200
    assert "/gists" in visitor.first.words
    one = visitor.get(visitor.first.link(r"^/request\?id=r-2$"))
    answer = visitor.get(one.link(r"^/suggest"))
    assert "methods: [POST], paths: [/gists]" in answer.words


def test_a_foreign_name_and_a_guess_are_refused(terminal: Terminal) -> None:
    link = terminal.until(LINK)[0]
    visitor = PageClient(link)
    assert visitor.get("/", host="rebound.example.com").status == 421
    assert visitor.get("/").status == 200
    stranger = PageClient(link.partition("=")[0] + "=" + "x" * 32)
    assert stranger.first.status == 401
    assert stranger.get("/").status == 401


def test_the_token_is_shown_once_and_no_request_is_logged(terminal: Terminal) -> None:
    link = terminal.until(LINK)[0]
    PageClient(link).get("/request?id=r-1")
    terminal.press(CTRL_C)
    assert terminal.ended() == 0
    assert terminal.shown.count(link.partition("=")[2]) == 1
    assert "/request" not in terminal.shown


def test_ctrl_c_ends_all_of_it(terminal: Terminal) -> None:
    visitor = PageClient(terminal.until(LINK)[0])
    terminal.until("Ctrl-C")
    terminal.press(CTRL_C)
    assert terminal.ended() == 0
    assert terminal.left() == []
    assert "Traceback" not in terminal.shown
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect((visitor.host, visitor.port))


def test_a_socket_is_taken_away_again(tmp_path: Path) -> None:
    place = tmp_path / "review.sock"
    with Terminal(
        [*words(tmp_path)[:-2], "--socket", str(place)], tmp_path, environment(tmp_path)
    ) as terminal:
        terminal.until("review.sock")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(place))
            probe.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert probe.recv(15) == b"HTTP/1.1 200 OK"
        terminal.press(CTRL_C)
        assert terminal.ended() == 0
    assert not place.exists()
