"""Class 23, a control plane that fails open: whatever becomes of the rule files, nothing opens by it.

Cases S-02 (no rules at start), S-30 (broken YAML), S-31 (an empty list), S-32 (a typo), S-77 (rules of a
hostile repository). The proxy is a process of its own, asked from outside as a sandbox would.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import egress, put
from tests.proxy.serve_process import ServeProcess, until

GOOD = "version: 1\nhosts:\n  docs.example.com: {}\n"
MORE = GOOD + "  api.example.com: {}\n"
BROKEN = {
    "broken YAML": "{",
    "a file that was cut short": "version: 1\nhosts:\n  docs.example.com: {allow: [{id: re",
    "no YAML at all": "\x00\x01\x02",
    "an unknown key": "version: 1\nhots: {}\n",
    "an unknown key of a host": GOOD + "  api.example.com: {alow: all}\n",
    "another version": "version: 2\nhosts:\n  '**.example.com': {}\n",
    "nothing": "",
    "a comment": "# version: 1\n",
    "no host": "version: 1\n",
    "an empty list of hosts": "version: 1\nhosts: {}\n",
    "an empty list of rules": "rules: []\n",
    "only denies": "version: 1\ndeny:\n  - {id: a, hosts: [a.example.com]}\n",
    "aliases without end": "a: &a [x]\nb: &b [*a, *a]\nversion: 1\n",
}

AT_CONNECT = ("--denied-tls", "refuse")
"""So that the answer to CONNECT tells the rules in force."""

_CONNECT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as sock:
    sock.sendall(f"CONNECT {sys.argv[2]}:443 HTTP/1.1\\r\\nHost: {sys.argv[2]}:443\\r\\n\\r\\n".encode())
    print(sock.recv(4096).split()[1].decode())
"""


def connect(served: ServeProcess, host: str) -> int:
    """The status that a sandbox is answered with."""
    words = [sys.executable, "-c", _CONNECT, str(served.port), host]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def holds(served: ServeProcess) -> bool:
    """Whether exactly the first rules are in force: one host is open, another one is not."""
    return (connect(served, "docs.example.com"), connect(served, "api.example.com")) == (200, 403)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServeProcess]:
    with ServeProcess(tmp_path, GOOD, AT_CONNECT) as served:
        yield served


# Starting -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", BROKEN)
def test_without_sound_rules_it_does_not_start(what: str, tmp_path: Path) -> None:
    """S-02."""
    put(tmp_path / "hosts.yaml", BROKEN[what])
    outcome = egress("serve", "--rules", "hosts.yaml", "--listen", "127.0.0.1:0", cwd=tmp_path)
    assert outcome.status == 1
    assert "egress is ready" not in outcome.out
    assert outcome.err.startswith("hosts.yaml:"), "the place of the mistake"
    assert not (tmp_path / ".local").exists(), "nothing was begun"


@pytest.mark.parametrize("arguments", [[], ["--rules", "missing.yaml"], ["--rules", "folder"]])
def test_without_rules_it_does_not_start(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    outcome = egress("serve", *arguments, "--listen", "127.0.0.1:0", cwd=tmp_path)
    assert outcome.status == 3
    assert outcome.out == ""


# Reloading ----------------------------------------------------------------------------------------


def test_good_rules_come_into_force(served: ServeProcess) -> None:
    """The positive control, by a file that is merely saved."""
    assert holds(served)
    served.write(MORE)
    served.recorded("reloaded")
    assert connect(served, "api.example.com") == 200


def test_bad_rules_change_nothing_and_each_is_recorded(served: ServeProcess) -> None:
    """S-30, S-31, S-32: one after the other, and good ones are taken again behind them."""
    before = served.ask("GET", "/status")[1]["rules"]
    for number, text in enumerate(BROKEN.values(), 1):
        served.write(text)
        served.recorded("reload.refused", number)
    assert holds(served)
    refused = served.records("reload.refused")
    assert len(refused) == len(BROKEN)
    assert {record["file"] for record in refused} == {"hosts.yaml"}
    assert refused[list(BROKEN).index("an unknown key")]["line"] == 2
    now = served.ask("GET", "/status")[1]["rules"]
    assert isinstance(before, dict)
    assert isinstance(now, dict)
    assert now["in_force"] == before["in_force"]
    assert now["refused"]
    served.write(MORE)
    served.recorded("reloaded")
    assert connect(served, "api.example.com") == 200


def test_rules_that_are_gone_change_nothing(served: ServeProcess) -> None:
    served.rules.unlink()
    served.recorded("reload.refused")
    assert holds(served)


def test_who_asks_for_a_reload_is_told_why_it_was_refused(served: ServeProcess) -> None:
    served.write(BROKEN["an unknown key"])
    status, answer = served.ask("POST", "/reload")
    assert (status, answer["result"]) == (409, "refused")
    assert str(answer["problems"]).startswith("['hosts.yaml:2:1")
    assert holds(served)


def test_a_storm_of_signals_ends_and_the_last_word_counts(served: ServeProcess) -> None:
    for text in (BROKEN["broken YAML"], MORE, BROKEN["nothing"], MORE) * 5:
        served.write(text)
        served.signal(signal.SIGHUP)
    until(lambda: connect(served, "api.example.com") == 200)
    assert served.process.poll() is None
    assert served.ask("GET", "/readyz")[0] == 200


# Rules that merely lie there ------------------------------------------------------------------------


def hostile(marker: Path) -> str:
    return f"""\
version: 1
secrets:
  bait: {{from: {{command: [touch, "{marker}"]}}, hosts: [docs.example.com]}}
hosts:
  docs.example.com: {{allow: all, inject: [{{bearer: bait}}]}}
"""


@pytest.mark.parametrize("name", ["hosts.yaml", "config/hosts.yaml"])
def test_the_rules_of_a_hostile_repository_are_not_used(name: str, tmp_path: Path) -> None:
    """S-77: whoever works in that folder has not named them, so no program of theirs is run."""
    marker = tmp_path / "was-here"
    put(tmp_path / name, hostile(marker))
    outcome = egress("serve", "--listen", "127.0.0.1:0", cwd=tmp_path)
    assert outcome.status == 1
    assert f"egress trust {name}" in outcome.err
    assert not marker.exists()


def test_a_trusted_file_is_used_and_again_untrusted_once_it_has_changed(tmp_path: Path) -> None:
    """The twin, and the second half of S-77: a pull brings new rules, and they wait for their reader."""
    marker = tmp_path / "was-here"
    put(tmp_path / "hosts.yaml", GOOD)
    assert egress("trust", "hosts.yaml", cwd=tmp_path).status == 0
    with ServeProcess(tmp_path, GOOD, AT_CONNECT, trusted=False) as served:
        assert holds(served)
        served.write(hostile(marker))
        (record,) = served.recorded("reload.refused")
        assert "has changed since it was trusted" in str(record["reason"])
        assert served.ask("POST", "/reload")[0] == 409
        assert holds(served)
        assert not marker.exists()
        assert served.egress("trust", "hosts.yaml").status == 0
        served.recorded("reloaded")
        until(marker.exists, "the program of rules that are trusted")


def test_what_a_folder_brings_does_not_outrank_the_users_own_rules(tmp_path: Path) -> None:
    marker = tmp_path / "was-here"
    put(tmp_path / ".config/egress/hosts.yaml", GOOD)
    with ServeProcess(tmp_path, hostile(marker), AT_CONNECT, trusted=False) as served:
        assert holds(served)
        assert not marker.exists()


def test_a_folder_sets_nothing_by_a_file_of_variables(tmp_path: Path) -> None:
    put(tmp_path / ".env", "EGRESS_RULES=evil.yaml\nEGRESS_NETWORK=true\n")
    put(tmp_path / "evil.yaml", "version: 1\nhosts:\n  '**.example.com': {}\n")
    with ServeProcess(tmp_path, GOOD, AT_CONNECT) as served:
        assert holds(served)
