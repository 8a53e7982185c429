"""How a program is found and begun; what it may do is looked at in whole sandboxes."""

from __future__ import annotations

from pathlib import Path

from egress.runtime.namespace.inside import command
from tests.unit.runtime.namespace.inside_code import run_inside


def test_a_program_is_looked_for_where_its_own_variables_say() -> None:
    assert command._candidates(b"x", {b"PATH": b"/a::/b"}) == [b"/a/x", b"./x", b"/b/x"]
    assert command._candidates(b"./x", {b"PATH": b"/a"}) == [b"./x"]
    assert command._candidates(b"x", {})[0] == b"/usr/local/bin/x"


def test_words_are_bytes_whatever_they_were() -> None:
    assert command._words(["a", "ü", "\udcff", 5]) == [b"a", "ü".encode(), b"\xff", b"5"]
    assert command._words("abc") == []
    assert command._variables({"A": "ü"}) == {b"A": "ü".encode()}
    assert command._variables(None) == {}


_RUN = """
ours, theirs = socket.socketpair()
number = os.fork()
if not number:
    os.dup2(1, 2)
    command._run([each.encode() for each in sys.argv[1:]], {b"PATH": b"/usr/bin:/bin"}, theirs)
print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
"""


def test_one_that_is_not_there_ends_as_a_shell_would_say() -> None:
    assert run_inside(_RUN, "no-such-program").splitlines() == [
        "command not found: no-such-program",
        "127",
    ]
    assert run_inside(_RUN, "/etc/passwd/x").splitlines() == ["command not found: /etc/passwd/x", "127"]
    assert run_inside(_RUN, "/etc").splitlines() == ["command cannot be run: /etc", "126"]


def test_a_text_without_a_first_line_is_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo $0 $1; exit 3")
    script.chmod(0o755)
    assert run_inside(_RUN, str(script), "a").splitlines() == [f"{script} a", "3"]


def test_a_folder_that_is_not_there_is_told() -> None:
    code = """
ours, theirs = socket.socketpair()
number = os.fork()
if not number:
    command._change_folder("/no/such", theirs)
print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), ours.recv(99).decode())
"""
    assert run_inside(code) == '125 {"refused": "folder"}\n'
