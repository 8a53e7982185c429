"""The plain programs of a sandbox in memory."""

from __future__ import annotations

import pytest

from egress.runtime.fake import FakeRuntime
from egress.runtime.spec import Command, ExecResult, Spec


def run(*words: str, data: bytes = b"") -> ExecResult:
    runtime = FakeRuntime()
    runtime.create(Spec(name="one", image="any"))
    runtime.start("one")
    runtime.files("one").write("/workspace/a", b"file")
    return runtime.exec("one", Command(argv=words, input=data, env={"X": "y"}, timeout=60))


@pytest.mark.parametrize(
    ("words", "status", "out"),
    [
        (("true",), 0, b""), (("false",), 1, b""), (("echo", "a", "b"), 0, b"a b\n"), (("cat",), 0, b"data"),
        (("cat", "a", "/workspace/a"), 0, b"filefile"), (("pwd",), 0, b"/workspace\n"),
        (("mkdir", "-p", "b"), 0, b""), (("sleep", "1"), 0, b""), (("sleep", "infinity"), 124, b""),
    ],
)  # fmt: skip
def test_it_does_what_it_is_named_for(words: tuple[str, ...], status: int, out: bytes) -> None:
    result = run(*words, data=b"data")
    assert (result.exit_code, result.stdout_bytes) == (status, out)


def test_what_is_missing_is_said() -> None:
    assert b"No such file" in run("cat", "nothing").stderr_bytes
    assert run("nothing").exit_code == 127
    assert b"X=y\n" in run("env").stdout_bytes
