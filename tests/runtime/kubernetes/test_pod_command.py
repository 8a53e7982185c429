"""A command of a pod: what `begin.sh` makes of its words, and what its report makes of its output."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.cluster.pod_exec import PodExec, StreamName
from egress.cluster.stream_channels import ExecStatus
from egress.runtime.errors import EngineError, EngineUnavailableError
from egress.runtime.kubernetes import pod_command
from egress.runtime.kubernetes.pod_command import PodCommand, PodRun, preamble
from tests.runtime.test_proc_scripts import HERE

BEGIN = Path(pod_command.__file__).with_name("begin.sh")
SHOW = 'printf "%s|" "$A" "$#" "$@"; cat'


def begin(shell: list[str], *words: str, data: bytes = b"") -> bytes:
    program = str(shutil.which(shell[0]))
    begun = [program, *shell[1:], str(BEGIN), *words]
    return subprocess.run(
        begun, input=data, stdout=subprocess.PIPE, check=True, env={"PATH": os.defpath}
    ).stdout


@pytest.fixture(params=HERE, ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    words: list[str] = request.param
    return words


WORDS = ["", "a  b", "*", "$(id)", "'\"\\", "one\ntwo\n", "\n", "-n", "\u00fc"]


def test_words_variables_and_input_arrive_as_they_were(shell: list[str]) -> None:
    """In every shell that images have, and with the input of the command right behind them."""
    env = {"A": "x\n$y `z` \\\n"}
    data = preamble(["sh", "-c", SHOW, "sh", *WORDS], env) + b"the input\nof the command"
    expected = "".join(f"{each}|" for each in (env["A"], str(len(WORDS)), *WORDS))
    assert begin(shell, "input", data=data) == expected.encode() + b"the input\nof the command"


def test_a_terminal_gets_its_words_in_the_request(shell: list[str]) -> None:
    found = begin(shell, "words", "A=x\n$y", "B=", "--", "sh", "-c", SHOW, "sh", *WORDS, "--", data=b"in")
    expected = "".join(f"{each}|" for each in ("x\n$y", str(len(WORDS) + 1), *WORDS, "--"))
    assert found == expected.encode() + b"in"


@given(
    st.lists(st.text(st.characters(exclude_characters="\0\r", codec="utf-8"), max_size=20), max_size=4),
    st.binary(max_size=20),
)
def test_any_words_are_words(words: list[str], data: bytes) -> None:
    found = begin(["sh"], "input", data=preamble(["sh", "-c", SHOW, "sh", *words], {}) + data)
    assert found == "".join(f"{each}|" for each in ("", str(len(words)), *words)).encode() + data


class Pieces:
    """The stream of a command, in pieces."""

    def __init__(self, *pieces: tuple[StreamName, bytes], status: ExecStatus | None = None) -> None:
        self.pieces = list(pieces)
        self.status: ExecStatus | None = None
        self._last = status

    def read(self) -> tuple[StreamName, bytes] | None:
        if self.pieces:
            return self.pieces.pop(0)
        self.status = self._last
        return None

    def abort(self) -> None:
        self.pieces.clear()


def command(stream: Pieces, token: str = "tok", run: PodRun | None = None) -> PodCommand:
    return PodCommand(cast("PodExec", stream), run or PodRun("one", "u", "c"), token, has_terminal=False)


def output(found: PodCommand) -> dict[str, bytes]:
    read = {"stdout": b"", "stderr": b""}
    while (pieces := found.read()) is not None:
        for name, data in pieces:
            read[name] += data
    return read


def test_the_report_ends_a_command_whose_outputs_stay_open() -> None:
    stream = Pieces(
        ("stdout", b"one\nto"),
        ("stdout", b"k: not it tok: en"),
        ("stdout", b"ded 7\nof another process"),
        ("stdout", b"and more"),
        ("stderr", b"bad\ntok: ended 7\n"),
        ("stdout", b"never read"),
    )
    found = command(stream)
    assert output(found) == {"stdout": b"one\ntok: not it ", "stderr": b"bad\n"}
    assert found.status() == 7
    assert stream.pieces == [("stdout", b"never read")]


@given(st.lists(st.integers(1, 9), max_size=9), st.binary(max_size=30))
def test_the_report_is_found_wherever_the_stream_is_cut(cuts: list[int], data: bytes) -> None:
    whole, pieces = data + b"tok: ended 3\n", list[tuple[StreamName, bytes]]()
    for cut in cuts:
        pieces.append(("stdout", whole[:cut]))
        whole = whole[cut:]
    found = command(Pieces(*pieces, ("stdout", whole), ("stderr", b"tok: ended 3\n")))
    assert output(found)["stdout"] == data
    assert found.status() == 3


def test_without_a_report_the_status_is_that_of_the_api_server() -> None:
    found = command(Pieces(("stdout", b"tok: ended"), status=ExecStatus(137)))
    assert output(found)["stdout"] == b"tok: ended"
    assert found.status() == 137
    begun = command(Pieces(status=ExecStatus(None, "no such file")))
    assert output(begun)["stdout"] == b""
    assert begun.has_not_begun(begun.status() or 0, b"")


@pytest.mark.parametrize("report", [b"tok: ended 99999\n", b"tok: ended \n", b"tok: ended x\n"])
def test_a_report_that_is_none_counts_for_nothing(report: bytes) -> None:
    """Processes of the sandbox can read the token, and write what they like."""
    found = command(Pieces(("stdout", report), ("stderr", report)))
    output(found)
    with pytest.raises(EngineUnavailableError, match="ended before the command did"):
        found.status()


def test_a_command_that_was_given_up_has_no_status() -> None:
    found = command(Pieces(("stdout", b"x")))
    found.abort()
    output(found)
    assert found.status() is None


def test_the_end_of_the_sandbox_is_never_taken_for_that_of_a_command() -> None:
    found = command(Pieces(status=ExecStatus(143)), run=PodRun("one", "u", "c", is_over=True))
    output(found)
    with pytest.raises(EngineError, match="sandbox of the command has ended"):
        found.status()
