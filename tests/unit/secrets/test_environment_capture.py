"""Real processes that take secrets out of their environment: seen from outside, through `/proc`."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from egress.errors import UnreadableError, UsageError
from egress.secrets.environment_capture import (
    _SEALS,
    HANDED_OVER_VARIABLE,
    CapturedEnvironment,
    _packed,
    _sealed,
    capture_environment,
    read_handed_over,
    secret_variables,
)
from egress.secrets.source_value import SourceValue
from tests.unit.secrets.secret_samples import OTHER, SYSTEM_PATH, TOKEN, spec

ROOT = Path(__file__).parents[3]

# It says what it has, then waits to be looked at.
PROGRAM = """
import hashlib, json, os, sys
from egress.secrets.environment_capture import capture_environment

def digest(value):
    return hashlib.sha256(value.secret_named("x").reveal()).hexdigest()

captured = capture_environment(dict(os.environ), {"TOKEN", "SECOND", "ABSENT"}, sys.orig_argv)
print(json.dumps({
    "pid": os.getpid(),
    "argv": sys.argv[1:],
    "values": {name: digest(value) for name, value in captured.values.items()},
    "environ": sorted(captured.environ),
    "repr": repr(captured),
    "open": [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
             if os.path.lexists(f"/proc/self/fd/{n}")],
}), flush=True)
sys.stdin.read()
"""


def digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


@contextmanager
def started(environ: Mapping[str, str], *argv: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A process that has taken its secrets, and what it said of itself."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *argv],
        env={"PATH": SYSTEM_PATH, "PYTHONPATH": str(ROOT), **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said, "the process ended early"
        yield process, json.loads(said)
        process.communicate()


def block(pid: int) -> bytes:
    """The environment as the kernel shows it to others."""
    return Path(f"/proc/{pid}/environ").read_bytes()


def test_after_the_new_start_the_environment_lacks_the_value_and_the_process_has_it() -> None:
    given = {"TOKEN": TOKEN.decode(), "SECOND": OTHER.decode(), "KEPT": "kept-value"}
    with started(given, "serve", "a b") as (process, said):
        seen = block(process.pid)
        assert TOKEN not in seen
        assert OTHER not in seen
        assert b"TOKEN=" not in seen
        assert b"KEPT=kept-value" in seen
        assert said["values"] == {"TOKEN": digest(TOKEN), "SECOND": digest(OTHER)}
        assert said["pid"] == process.pid
        assert said["argv"] == ["serve", "a b"]
        assert TOKEN not in Path(f"/proc/{process.pid}/cmdline").read_bytes()


def test_what_is_left_names_neither_the_variables_nor_the_hand_over() -> None:
    with started({"TOKEN": TOKEN.decode()}) as (_, said):
        assert not {"TOKEN", "SECOND", HANDED_OVER_VARIABLE} & set(said["environ"])
        assert "tok_" not in str(said["repr"])


def test_the_memory_file_is_closed_afterwards() -> None:
    with started({"TOKEN": TOKEN.decode()}) as (_, said):
        assert "memfd" not in str(said["open"])


def test_bytes_that_are_no_text_survive() -> None:
    value = b"gr\xfc\xdfe-12345"
    with started({"TOKEN": os.fsdecode(value)}) as (process, said):
        assert said["values"] == {"TOKEN": digest(value)}
        assert value not in block(process.pid)


def test_without_any_of_them_there_is_no_new_start() -> None:
    """`argv` would not be a program."""
    captured = capture_environment({"PATH": "/bin"}, ["TOKEN"], ["no such program"])
    assert captured == CapturedEnvironment({}, {"PATH": "/bin"})


def test_a_container_is_refused_and_the_variables_are_named() -> None:
    with pytest.raises(UsageError, match="holds secrets: SECOND, TOKEN") as caught:
        capture_environment({"TOKEN": "t", "SECOND": "s"}, ["TOKEN", "SECOND"], ["x"], container=True)
    assert "`file:`" in caught.value.hint
    assert capture_environment({"PATH": "/bin"}, ["TOKEN"], ["x"], container=True).values == {}


def test_a_second_start_that_finds_them_again_stops() -> None:
    """Else it would go round for ever."""
    descriptor = _sealed(_packed({"TOKEN": "t"}))
    with pytest.raises(UsageError, match="still in the environment after a new start: TOKEN"):
        capture_environment({HANDED_OVER_VARIABLE: str(descriptor), "TOKEN": "t"}, ["TOKEN"], ["x"])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_the_variable_of_the_hand_over_cannot_be_a_secret() -> None:
    with pytest.raises(UsageError, match="is reserved for Egress"):
        capture_environment({}, [HANDED_OVER_VARIABLE], ["x"])


def test_what_is_handed_over_is_sealed_and_read_once() -> None:
    descriptor = _sealed(_packed({"TOKEN": TOKEN.decode(), "EQUALS": "a=b=c"}))
    with pytest.raises(OSError, match="not permitted"):
        os.write(descriptor, b"x")
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(descriptor, 0)
    assert not os.get_inheritable(descriptor)
    values = read_handed_over(str(descriptor))
    assert values["TOKEN"].is_same(SourceValue(TOKEN))
    assert values["EQUALS"].is_same(SourceValue(b"a=b=c"))
    with pytest.raises(UsageError, match="does not name a file of Egress"):
        read_handed_over(str(descriptor))


@pytest.mark.parametrize("number", ["", "0", "2", "-1", "x", "99999999", "٣", "1e1", "9" * 5000])
def test_a_number_that_is_nothing_of_ours_is_refused(number: str) -> None:
    with pytest.raises(UsageError, match="does not name a file of Egress"):
        read_handed_over(number)


def test_another_file_is_not_taken_for_a_hand_over_and_stays_open(tmp_path: Path) -> None:
    sealed = os.memfd_create("other", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(sealed, fcntl.F_ADD_SEALS, _SEALS)
    for descriptor in (
        sealed,
        os.open(tmp_path, os.O_RDONLY),
        os.memfd_create("other", os.MFD_ALLOW_SEALING),
        os.memfd_create("egress-handed-over"),
    ):
        above = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
        with pytest.raises(UsageError):
            read_handed_over(str(above))
        os.close(above)
        os.close(descriptor)


def test_a_new_start_that_fails_says_so_and_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(UnreadableError, match="cannot start itself again") as caught:
        capture_environment({"TOKEN": TOKEN.decode()}, ["TOKEN"], ["x"])
    assert "tok_" not in f"{caught.value}{caught.value.hint}"
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(UsageError, match="its command line"):
        capture_environment({"TOKEN": TOKEN.decode()}, ["TOKEN"], ["x"])


def test_the_variables_of_a_policy_are_those_of_its_env_secrets() -> None:
    assert secret_variables(
        [spec("a", "env", "TOKEN"), spec("b", "file", "/x"), spec("c", "env", "TOKEN")]
    ) == {"TOKEN"}
