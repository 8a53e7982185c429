"""What is cut from programs and libraries is nothing that a loader reads."""

from __future__ import annotations

import _ctypes
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.runtime.docker import elf_strip
from egress.runtime.docker.elf_strip import without_symbols

LIBRARY = Path(_ctypes.__file__)
PROGRAM = Path("/bin/true").resolve()


def test_a_library_is_loaded_without_its_symbols(tmp_path: Path) -> None:
    data = LIBRARY.read_bytes()
    cut = without_symbols(data)
    assert len(cut) < len(data)
    assert is_loaded(tmp_path / "cut.so", cut)
    # One that is cut any further is none.
    assert not is_loaded(tmp_path / "short.so", cut[: len(cut) // 4])


def is_loaded(file: Path, data: bytes) -> bool:
    """Whether a process of its own can load a library, and find a name in it."""
    file.write_bytes(data)
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).PyInit__ctypes"
    return (
        subprocess.run([sys.executable, "-I", "-c", code, file], check=False, capture_output=True).returncode
        == 0
    )


@pytest.mark.parametrize("program", [PROGRAM, Path(sys.executable).resolve()])
def test_a_program_runs_without_its_symbols(program: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    cut.write_bytes(without_symbols(program.read_bytes()))
    cut.chmod(0o755)
    assert subprocess.run([cut, "--version"], check=False, capture_output=True).returncode == 0


def test_what_was_cut_is_not_cut_again() -> None:
    cut = without_symbols(LIBRARY.read_bytes())
    assert without_symbols(cut) == cut


def test_a_program_that_carries_data_of_its_own_stays_whole() -> None:
    """Behind all that its linker wrote: such a program finds it there."""
    carrying = LIBRARY.read_bytes() + b"a payload"
    assert without_symbols(carrying) == carrying


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(100)])
def test_what_is_no_such_file_stays_as_it_is(data: bytes) -> None:
    assert without_symbols(data) == data


@given(st.binary(max_size=400))
def test_no_header_is_believed_beyond_the_end_of_its_file(rest: bytes) -> None:
    data = b"\x7fELF\x02\x01" + rest
    assert len(without_symbols(data)) <= len(data)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**16 - 1))
def test_no_offset_leads_elsewhere(segments: int, sections: int, count: int) -> None:
    data = bytearray(LIBRARY.read_bytes()[:4096])
    struct.pack_into("<QQ", data, 32, segments, sections)
    struct.pack_into("<H", data, 56, count)
    assert len(without_symbols(bytes(data))) <= len(data)


def test_it_imports_nothing_of_egress() -> None:
    """The recipe of the proxy image runs it before there is an Egress."""
    assert "egress" not in {line.split()[1].partition(".")[0] for line in _imports()}


def _imports() -> list[str]:
    text = Path(elf_strip.__file__).read_text("utf-8")
    return [line for line in text.splitlines() if line.startswith(("import ", "from "))]
