"""`egress env`: for the proxy that runs, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from egress.ca import AuthorityStore
from egress.cli import env
from egress.cli.main import main

type Captured = pytest.CaptureFixture[str]
type Answer = Mapping[str, object]
NOW = 1_800_000_000


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("EGRESS_STATE_DIR", "EGRESS_RUNTIME_DIR", "XDG_STATE_HOME", "SHELL"):
        monkeypatch.delenv(name, raising=False)
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    return state


@pytest.fixture
def fingerprint(state: Path) -> str:
    return AuthorityStore(state / "ca").open("default", NOW).fingerprint


def answering(monkeypatch: pytest.MonkeyPatch, answer: Answer, status: int = 200) -> None:
    monkeypatch.setattr(env, "ask_proxy", lambda *_: (status, answer))


def serving(fingerprint: str, *listeners: str) -> Answer:
    return {"sandboxes": [{"name": "default", "listeners": list(listeners), "authority": fingerprint}]}


@pytest.mark.parametrize(
    ("listener", "shown"),
    [
        ("127.0.0.1:3128", "127.0.0.1:3128"),
        ("0.0.0.0:3128", "127.0.0.1:3128"),
        ("[::]:3128", "[::1]:3128"),
        ("[fe80::1]:9", "[fe80::1]:9"),
    ],
)
def test_it_names_where_the_proxy_listens(
    state: Path,
    fingerprint: str,
    listener: str,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    answering(monkeypatch, serving(fingerprint, listener))
    assert main(["env", "--state-dir", str(state)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"export HTTPS_PROXY='http://{shown}';" in lines or f"export HTTPS_PROXY=http://{shown};" in lines
    assert f"export SSL_CERT_FILE={state}/client/default/bundle.pem;" in lines
    assert lines[0].startswith("unset ALL_PROXY ")


def test_the_files_are_those_that_the_variables_name(
    state: Path, fingerprint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answering(monkeypatch, serving(fingerprint, "127.0.0.1:3128"))
    out = tmp_path / "here"
    for _ in range(2):
        assert main(["env", "--state-dir", str(state), "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    named = [line.partition("=")[2].rstrip(";") for line in lines if str(out) in line and " " not in line[7:]]
    places = [Path(text.lstrip(":")) for text in named]
    assert len(places) > 10
    assert all(place.exists() for place in places)
    assert "BEGIN CERTIFICATE" in (out / "ca.pem").read_text("ascii")
    assert not any("PRIVATE" in path.read_text("latin-1") for path in out.rglob("*") if path.is_file())


def test_another_proxy_than_that_of_the_state_folder_is_not_trusted(
    state: Path, fingerprint: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """The commands would name a certificate that the proxy does not show."""
    for other in (serving("ab:cd", "127.0.0.1:3128"), serving(fingerprint, "127.0.0.1:3128")):
        answering(monkeypatch, other)
        missing = state.with_name("nonesuch") if other == serving(fingerprint, "127.0.0.1:3128") else state
        assert main(["env", "--state-dir", str(missing)]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert "signs with another certificate" in said.err
        assert "--state-dir" in said.err


@pytest.mark.parametrize(
    "answer",
    [{}, {"sandboxes": 7}, {"sandboxes": ["x"]}, {"sandboxes": [{"name": "default", "listeners": []}]}],
    ids=str,
)
def test_without_a_listener_there_is_nothing_to_print(
    state: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answering(monkeypatch, answer)
    assert main(["env", "--state-dir", str(state)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "has no listener for a sandbox default" in said.err


def test_a_proxy_that_still_starts_is_said(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answering(monkeypatch, {}, 404)
    assert main(["env", "--state-dir", str(state)]) == 3
    assert capsys.readouterr().out == ""


def test_a_folder_that_settings_files_cannot_name_is_refused(
    state: Path, fingerprint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answering(monkeypatch, serving(fingerprint, "127.0.0.1:3128"))
    assert main(["env", "--state-dir", str(state), "--out", str(tmp_path / "a folder")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "with --out" in said.err


def test_files_that_cannot_be_written_are_said(
    state: Path, fingerprint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answering(monkeypatch, serving(fingerprint, "127.0.0.1:3128"))
    (tmp_path / "file").write_text("")
    assert main(["env", "--state-dir", str(state), "--out", str(tmp_path / "file")]) == 3
    assert capsys.readouterr().out == ""


def test_the_end_removes_what_was_set_and_writes_nothing(
    state: Path, fingerprint: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    answering(monkeypatch, serving(fingerprint, "127.0.0.1:3128"))
    assert main(["env", "--state-dir", str(state), "--unset", "--shell", "fish"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("set -e HTTPS_PROXY ")
    assert not (state / "client").exists()
