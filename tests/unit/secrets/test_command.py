"""Real programs as sources: found, run, and spoken of without a word of what they said."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.command import CommandSecretSource
from tests.unit.secrets.secret_samples import SYSTEM_PATH, TOKEN, script


def source(
    *argv: str, home: Path | str = "/", path: str = SYSTEM_PATH, timeout: float = 60.0
) -> CommandSecretSource:
    return CommandSecretSource(argv, ChildEnvironment({"PATH": path, "HOME": str(home)}), timeout)


def value(command: CommandSecretSource) -> bytes:
    return command.fetch().secret_named("x").reveal()


def fault(command: CommandSecretSource) -> UnreadableError:
    with pytest.raises(UnreadableError) as caught:
        command.fetch()
    return caught.value


def test_gives_what_the_program_prints(tmp_path: Path) -> None:
    assert value(source(str(script(tmp_path, f"echo {TOKEN.decode()}")))) == TOKEN


def test_arguments_arrive_as_they_were_written(tmp_path: Path) -> None:
    """No shell reads them."""
    program = script(tmp_path, 'printf "%s|" "$0" "$@"')
    given = ("$HOME", "a b", "; id", "*", "`id`")
    assert value(source(str(program), *given)).decode() == "|".join([str(program), *given, ""])


def test_a_name_is_found_on_the_path_and_a_tilde_is_the_home(tmp_path: Path) -> None:
    script(tmp_path, "echo token-123", "get")
    assert value(source("get", path=str(tmp_path))) == b"token-123"
    assert value(source("~/get", home=tmp_path)) == b"token-123"


def test_nothing_is_run_from_the_folder_of_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That may be a hostile repository."""
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "echo evil-evil", "get")
    assert fault(source("get", path=f".:{SYSTEM_PATH}")).message == "program not found: get"
    assert "is a relative" in fault(source("./get")).message
    assert value(source("pwd", home="/")) == b"/"


def test_runs_in_the_home_of_the_user(tmp_path: Path) -> None:
    assert value(source("pwd", home=tmp_path)) == str(tmp_path).encode()


def test_a_failure_is_told_without_what_was_written(tmp_path: Path) -> None:
    said = f"echo {TOKEN.decode()}; echo {TOKEN.decode()} >&2"
    error = fault(source(str(script(tmp_path, f"{said}; exit 4"))))
    assert error.message == "get-secret ended with status 4 and wrote 25 bytes to standard error"
    assert "by hand" in error.hint
    error = fault(source(str(script(tmp_path, f"{said}; kill -9 $$"))))
    assert error.message == "get-secret was killed by signal 9 and wrote 25 bytes to standard error"
    assert error.__context__ is None


def test_a_program_that_hangs_is_told(tmp_path: Path) -> None:
    error = fault(source(str(script(tmp_path, "sleep 1000")), timeout=0.2))
    assert error.message == "get-secret did not end within 0.2 s"


def test_a_program_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    assert "program not found" in fault(source(str(tmp_path / "gone"))).message
    assert "program not found" in fault(CommandSecretSource((), ChildEnvironment({}))).message
    program = script(tmp_path, "")
    program.write_text("#!/no/such/interpreter\n", encoding="utf-8")
    assert "cannot be started" in fault(source(str(program))).message
    assert "cannot be started" in fault(source("pwd", home="/no/such/home")).message


def test_stops_what_runs() -> None:
    command = source("sleep", "1000")
    command.stop()
    assert fault(command).message == "sleep was stopped"


@pytest.mark.parametrize(("ttl", "due", "end"), [(None, 240.0, 300.0), (10, 8.0, 10.0)])
def test_is_asked_again_before_the_value_ends(ttl: int | None, due: float, end: float) -> None:
    assert source("x").lifetime(ttl) == (due, end)
