"""What the handle promises on every runtime that runs real programs, as cases that run against each of them.

A case is a function of a sandbox. Nothing is taken for granted there but a POSIX shell and plain programs.
"""

from __future__ import annotations

import io
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from egress.errors import UnreadableError
from egress.runtime.errors import (
    ArchiveError,
    PathNotFoundError,
    SandboxDiedError,
    SandboxTimeoutError,
    SpecError,
)
from egress.sandbox.errors import (
    FailedCommandError,
    LateCommandError,
    LogEndedError,
    OutputLostError,
    PathDeniedError,
    PathExistsError,
    PathKindError,
    PathOutsideError,
    SessionClosedError,
)
from egress.sandbox.handle import Sandbox
from egress.sandbox.watch import Change

Case = Callable[[Sandbox], None]
CASES: dict[str, list[Case]] = defaultdict(list)


def case(topic: str) -> Callable[[Case], Case]:
    def keep(function: Case) -> Case:
        CASES[topic].append(function)
        return function

    return keep


# Commands -------------------------------------------------------------------------------------------


@case("commands")
def a_text_is_a_line_and_a_sequence_is_words(box: Sandbox) -> None:
    assert box.exec("echo a  b | tr a-z A-Z").text == "A B\n"
    assert box.exec(["echo", "a  b | tr", "$HOME"]).text == "a  b | tr $HOME\n"


@case("commands")
def input_is_text_bytes_or_a_file(box: Sandbox) -> None:
    assert box.exec("cat", input="ü").text == "ü"
    assert box.exec("wc -c", input=b"x" * 200_000).text.strip() == "200000"
    assert box.exec("cat", input=io.BytesIO(b"file")).stdout == "file"
    assert box.exec("cat").stdout == ""


@case("commands")
def output_is_told_as_it_comes(box: Sandbox) -> None:
    out: list[str] = []
    err: list[str] = []
    box.exec("echo one; echo two >&2", on_stdout=out.append, on_stderr=err.append)
    assert ("".join(out), "".join(err)) == ("one\n", "two\n")


@case("commands")
def a_failure_that_is_checked_carries_its_output(box: Sandbox) -> None:
    assert box.exec("exit 3").exit_code == 3
    with pytest.raises(FailedCommandError, match="status 3") as failed:
        box.exec("echo why >&2; exit 3", check=True)
    assert failed.value.result.stderr == "why\n"
    with pytest.raises(LateCommandError) as late:
        box.exec("echo before; sleep 60", check=True, timeout=0.3)
    assert late.value.result.stdout == "before\n"
    assert late.value.result.exit_code == 124


@case("commands")
def a_character_that_is_cut_in_two_arrives_whole(box: Sandbox) -> None:
    pieces: list[str] = []
    result = box.exec(r"printf 'a\303'; sleep 0.3; printf '\274b\377'", on_stdout=pieces.append)
    assert "".join(pieces) == result.stdout == "aüb\ufffd"
    pieces.clear()
    box.exec(r"printf 'never whole: \303'", on_stdout=pieces.append)
    assert "".join(pieces) == "never whole: \ufffd"
    pieces.clear()
    with box.spawn(r"printf 'a\303' >&2; sleep 0.3; printf '\274b' >&2", on_stderr=pieces.append) as process:
        assert "".join(process.stderr.chunks()) == process.stderr.read() == "aüb"
        process.wait(30)
    assert "".join(pieces) == "aüb"


@case("commands")
def bytes_are_handed_over_on_request(box: Sandbox) -> None:
    pieces: list[bytes] = []
    result = box.exec(r"printf '\303\050'", text=False, on_stdout=pieces.append)
    assert b"".join(pieces) == result.stdout_bytes == b"\xc3("
    with box.spawn(r"printf '\377'", text=False, on_stdout=pieces.append) as process:
        assert b"".join(process.stdout.byte_chunks()) == process.stdout.read_bytes() == b"\xff"
        process.wait(30)
    assert pieces[-1] == b"\xff"


@case("commands")
def a_line_runs_in_bash_where_there_is_one(box: Sandbox) -> None:
    has_bash = box.exec(["sh", "-c", "command -v bash"]).exit_code == 0
    assert box.exec("echo ${BASH_VERSION:+bash}").text == ("bash\n" if has_bash else "\n")
    with box.session() as session:
        assert session.exec("echo ${BASH_VERSION:+bash}").text == ("bash\n" if has_bash else "\n")
    if has_bash:
        line = "set -o pipefail; [[ one == o* ]] && source /dev/null && (exit 3) | true"
        assert box.exec(line).exit_code == 3


@case("commands")
def a_program_that_cannot_be_run_is_named(box: Sandbox) -> None:
    box.files.write("plain.txt", "no program", mode=0o644)
    for words, status, why in (
        (["no-such-program", "x"], 127, "command not found: no-such-program\n"),
        (["./missing"], 127, "command not found: ./missing\n"),
        (["./plain.txt"], 126, "command cannot be run: ./plain.txt\n"),
    ):
        result = box.exec(words)
        assert (result.exit_code, result.stdout, result.stderr) == (status, "", why)


@case("commands")
def a_variable_of_any_name_reaches_the_command(box: Sandbox) -> None:
    names = ("token", "seconds", "turns", "watch", "why", "setsid", "status", "verb", "place", "missing")
    found = box.exec(["env"], env=dict.fromkeys(names, "given"), timeout=60).text.splitlines()
    assert {f"{name}=given" for name in names} <= set(found)


@case("commands")
def variables_and_folders_are_those_that_were_named(box: Sandbox) -> None:
    result = box.exec('echo "$ONE"; pwd', env={"ONE": "1 $(id) '"}, cwd="/tmp")
    assert result.text == "1 $(id) '\n/tmp\n"


# Processes ------------------------------------------------------------------------------------------


@case("process")
def a_process_is_written_to_and_read_line_by_line(box: Sandbox) -> None:
    with box.spawn("while read line; do echo got $line; done; echo end >&2") as process:
        lines = process.stdout.lines()
        process.write("one\n")
        assert next(lines) == "got one"
        process.write(b"two\n")
        assert next(lines) == "got two"
        process.close_stdin()
        assert list(lines) == []
        assert process.wait(30).exit_code == 0
        assert list(process.stderr.chunks()) == ["end\n"]
    assert process.poll() == 0
    assert "ended with 0" in repr(process)


@case("process")
def what_was_said_before_anybody_looked_is_not_lost(box: Sandbox) -> None:
    process = box.spawn("echo early")
    process.wait(30)
    assert list(process.stdout.lines()) == ["early"]
    assert process.logs() == "early\n"


@case("process")
def a_reader_who_is_too_slow_is_told(box: Sandbox) -> None:
    process = box.spawn(
        "echo first; read go; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo $i; done", keep=1000
    )
    chunks = process.stdout.chunks()
    assert next(chunks) == "first\n"
    process.write("go\n")
    process.wait(30)
    with pytest.raises(OutputLostError, match="bytes of output"):
        next(chunks)
    assert len(process.stdout.read()) == 1000


@case("process")
def it_is_waited_for_until_it_says_something(box: Sandbox) -> None:
    process = box.spawn("echo starting >&2; read go; printf 'ready on 80'; sleep 60")
    assert process.wait_for_log("starting", timeout=30)[0] == "starting"
    with pytest.raises(SandboxTimeoutError):
        process.wait_for_log("ready", timeout=0.1)
    process.write("go\n")
    assert process.wait_for_log(re.compile(r"ready on (\d+)"), timeout=30)[1] == "80"
    process.kill()
    with pytest.raises(LogEndedError):
        process.wait_for_log("never", timeout=30)


@case("process")
def it_gets_any_signal(box: Sandbox) -> None:
    process = box.spawn("trap 'echo hup; exit 7' HUP; echo ready; while :; do sleep 0.1; done")
    process.wait_for_log("ready", timeout=30)
    process.kill("HUP")
    assert process.wait(30).exit_code == 7
    assert "hup" in process.logs()
    process.kill("KILL")
    with pytest.raises(SpecError):
        box.spawn("sleep 60").kill("NOSUCH")


@case("process")
def it_is_ended_with_what_it_began(box: Sandbox) -> None:
    process = box.spawn("sleep 61 & sleep 61 & echo ready; wait")
    process.wait_for_log("ready", timeout=30)
    process.kill()
    assert process.wait(30).exit_code in (137, 143)


@case("process")
def a_wait_has_its_own_time(box: Sandbox) -> None:
    with box.spawn("sleep 60") as process:
        with pytest.raises(SandboxTimeoutError):
            process.wait(0.05)
        assert process.poll() is None
        assert "running" in repr(process)
    assert process.poll() is not None
    assert process.wait() == process.wait(0.05)


@case("process")
def what_is_under_way_settles_when_the_sandbox_ends(box: Sandbox) -> None:
    process = box.spawn("echo ready; sleep 60")
    process.wait_for_log("ready", timeout=30)
    session = box.session()
    failed: list[BaseException] = []

    def use() -> None:
        try:
            session.exec("sleep 60")
        except BaseException as error:  # noqa: BLE001 - looked at below
            failed.append(error)

    user = threading.Thread(target=use)
    session.exec("true")
    user.start()
    time.sleep(0.2)
    box.stop()
    for _ in range(2):
        with pytest.raises(SandboxDiedError):
            process.wait(30)
    user.join(30)
    assert [type(error) for error in failed] == [SandboxDiedError]
    with pytest.raises(SandboxDiedError):
        box.exec("true")


# Sessions -------------------------------------------------------------------------------------------


@case("session")
def it_keeps_folder_variables_and_functions(box: Sandbox) -> None:
    with box.session(env={"START": "s"}) as session:
        session.exec("mkdir -p in; cd in; export OUT=1; own=2; f() { echo f$own$START; }")
        assert session.exec("f; echo $OUT; echo ${PWD##*/}").text == "f2s\n1\nin\n"
        assert session.exec("sh -c 'echo $OUT$own'").text == "1\n"


@case("session")
def each_command_has_its_own_status_and_output(box: Sandbox) -> None:
    with box.session() as session:
        one = session.exec("printf out; printf err >&2; (exit 4)")
        assert (one.exit_code, one.stdout, one.stderr) == (4, "out", "err")
        two = session.exec("echo $?")
        assert (two.exit_code, two.stderr) == (0, "")
        assert session.exec("printf 'a\\\\nb\n'; echo '\\n' | wc -c").exit_code == 0
        with pytest.raises(FailedCommandError):
            session.exec("false", check=True)


@case("session")
def output_that_looks_like_a_mark_is_output(box: Sandbox) -> None:
    with box.session() as session:
        fake = "echo 0123456789abcdef0123456789abcdef 0; echo 'x 1' >&2; head -c 3000 /dev/zero"
        result = session.exec(fake)
        assert result.stdout.startswith("0123456789abcdef0123456789abcdef 0\n")
        assert len(result.stdout) == 35 + 3000
        assert session.exec("echo next").stdout == "next\n"


@case("session")
def a_command_reads_nothing_and_cannot_write_over_the_loop(box: Sandbox) -> None:
    with box.session() as session:
        assert session.exec("cat; read x; echo got:$x").stdout == "got:\n"
        assert session.exec("read x <&9; echo x >&7; echo $?").state_kept
        assert session.exec("exec >/dev/null 2>&1; echo gone").stdout == ""
        assert session.exec("echo here; echo there >&2").stderr == "there\n"


@case("session")
def what_ends_the_shell_is_said_and_the_next_begins_anew(box: Sandbox) -> None:
    with box.session() as session:
        session.exec("kept=1")
        ended = session.exec("echo bye; exit 5")
        assert (ended.exit_code, ended.stdout, ended.state_kept) == (5, "bye\n", False)
        assert session.exec("echo [$kept]").text == "[]\n"
        assert session.exec("kill -9 $$").state_kept is False
        broken = session.exec("if x (")
        assert broken.exit_code != 0
        assert session.exec("echo still").text == "still\n"


@case("session")
def time_that_is_over_ends_the_command_and_not_the_state(box: Sandbox) -> None:
    with box.session() as session:
        session.exec("kept=1; sleep 77 & ")
        late = session.exec("sleep 60; echo never", timeout=0.3)
        assert (late.exit_code, late.timed_out, late.state_kept, late.stdout) == (124, True, True, "")
        loop = session.exec("while :; do :; done", timeout=0.3)
        assert (loop.timed_out, loop.state_kept) == (True, True)
        assert session.exec("echo $kept; kill -0 $! && echo alive").text == "1\nalive\n"
        with pytest.raises(LateCommandError):
            session.exec("sleep 60", timeout=0.2, check=True)


@case("session")
def where_a_function_is_cut_short_nothing_after_it_is_run(box: Sandbox) -> None:
    with box.session() as session:
        late = session.exec("f() { sleep 60; }; f; echo never; touch never", timeout=0.3)
        assert (late.timed_out, late.state_kept, late.stdout) == (True, False, "")
        assert not box.files.exists("never")


@case("session")
def what_comes_late_belongs_to_the_next_command(box: Sandbox) -> None:
    with box.session() as session:
        session.exec("(sleep 0.2; echo late) &")
        time.sleep(0.6)
        assert session.exec("echo now").text == "late\nnow\n"


@case("session")
def a_closed_session_says_so(box: Sandbox) -> None:
    session = box.session()
    session.exec("true")
    session.close()
    session.close()
    with pytest.raises(SessionClosedError):
        session.exec("true")
    assert "closed" in repr(session)
    with pytest.raises(SpecError):
        box.session().exec("a\0b")


# Files ----------------------------------------------------------------------------------------------

ODD = ["plain", "two words", "-n", "$(id)", "a'b\"c", "*", "ü", "tab\there", "line\nend", "back\\slash"]


@case("files")
def what_is_written_is_read(box: Sandbox) -> None:
    files = box.files
    for number, name in enumerate(ODD):
        files.write(f"deep/{name}", f"text {number}")
    assert files.listdir("deep") == sorted(ODD)
    for number, name in enumerate(ODD):
        assert files.read_text(f"deep/{name}") == f"text {number}"
    files.write("bytes", bytes(range(256)) * 500)
    assert files.read("bytes") == bytes(range(256)) * 500
    files.write("stream", io.BytesIO(b"s" * 100_000))
    assert files.stat("stream").size == 100_000
    files.write("empty", "")
    assert files.read("empty") == b""


@case("files")
def a_file_is_replaced_whole_and_keeps_its_permissions(box: Sandbox) -> None:
    files = box.files
    files.write("run", "one", mode=0o750)
    files.write("run", "two")
    assert (files.stat("run").mode, files.read("run")) == (0o750, b"two")
    files.write("new", "x")
    assert files.stat("new").mode & 0o111 == 0
    assert [name for name in files.listdir() if name.startswith(".egress")] == []
    with pytest.raises(PathKindError, match="larger than 2 bytes"):
        files.read("run", most=2)


@case("files")
def no_more_of_a_file_is_read_than_was_asked_for(box: Sandbox) -> None:
    """A terabyte of nothing is made in no time, and read in none."""
    box.exec("dd if=/dev/zero of=huge bs=1 count=1 seek=1099511627775 2>/dev/null", check=True)
    assert box.files.stat("huge").size == 1024**4
    with pytest.raises(PathKindError, match="larger than 1000 bytes"):
        box.files.read("huge", most=1000)
    box.files.write("full", "x" * 1000)
    assert len(box.files.read("full", most=1000)) == 1000


@case("files")
def what_is_there_is_told(box: Sandbox) -> None:
    files = box.files
    files.mkdir("folder")
    files.write("folder/file", "12345")
    box.exec("ln -s folder/file link; ln -s nowhere broken; mkfifo pipe")
    assert files.stat("folder").is_folder
    linked = files.stat("link")
    assert (linked.is_file, linked.is_link, linked.size) == (True, True, 5)
    assert files.stat("pipe").kind == "other"
    assert files.stat(".").is_folder
    assert files.stat("folder/file").modified >= files.stat("/etc/passwd").modified
    assert [files.exists(name) for name in ("folder", "link", "broken", "no", "folder/file/x")] == [
        *(True, True, False, False, False)
    ]


@case("files")
def what_cannot_be_done_is_an_error_of_its_kind(box: Sandbox) -> None:
    files = box.files
    files.write("file", "x")
    files.mkdir("full/inner")
    box.exec("ln -s loop loop; mkfifo pipe")
    wrong: list[tuple[type[Exception], Callable[[], object]]] = [
        (PathNotFoundError, lambda: files.read("no")),
        (PathNotFoundError, lambda: files.stat("no/where")),
        (PathNotFoundError, lambda: files.remove("no")),
        (PathNotFoundError, lambda: files.rename("no", "other")),
        (PathKindError, lambda: files.read("full")),
        (PathKindError, lambda: files.read("pipe")),
        (PathKindError, lambda: files.read("file/x")),
        (PathKindError, lambda: files.write("full", "x")),
        (PathKindError, lambda: files.listdir("file")),
        (PathKindError, lambda: files.remove("full")),
        (PathKindError, lambda: files.remove(".", recursive=True)),
        (PathExistsError, lambda: files.mkdir("full", parents=False)),
        (PathExistsError, lambda: files.mkdir("file")),
        (PathExistsError, lambda: files.rename("file", "full")),
        (PathOutsideError, lambda: files.read("loop")),
        (SpecError, lambda: files.read("")),
        (SpecError, lambda: files.read("a\0b")),
    ]
    for kind, act in wrong:
        with pytest.raises(kind):
            act()
    assert files.read("file") == b"x"


@case("files")
def things_are_renamed_and_removed(box: Sandbox) -> None:
    files = box.files
    files.write("a/one", "1")
    files.write("two", "2")
    files.rename("a/one", "two")
    assert (files.read("two"), files.listdir("a")) == (b"1", [])
    files.rename("a", "b")
    files.write("b/c/d", "x")
    files.remove("b", recursive=True)
    box.exec("mkdir real; touch real/kept; ln -s real link")
    files.remove("link", recursive=True)
    assert files.listdir() == ["real", "two"]
    assert files.listdir("real") == ["kept"]


@case("files")
def a_relative_path_stays_in_the_workspace(box: Sandbox) -> None:
    files = box.files
    box.exec(
        "mkdir -p in/deep; ln -s / root; ln -s ../.. in/up; ln -s /etc/passwd in/file; ln -s deep in/fine"
    )
    for path in ("..", "../x", "in/../../x", "root/etc/passwd", "in/up/x", "in/file", "root"):
        for act in (files.read, files.listdir, lambda path: files.write(path, "x")):
            with pytest.raises((PathOutsideError, PathNotFoundError)) as refused:
                act(path)
            assert "x" not in files.listdir()
            assert not isinstance(refused.value, PathNotFoundError) or path.endswith("x")
        with pytest.raises((PathOutsideError, PathNotFoundError)):
            files.copy_out(path, "/nowhere")
    files.write("in/fine/ok", "inside")
    files.write("in/../in/deep/../deep/too", "inside")
    assert files.listdir("in/deep") == ["ok", "too"]
    with pytest.raises(PathOutsideError):
        files.mkdir("in/up/made/here")
    with pytest.raises(PathOutsideError):
        files.rename("in/fine/ok", "../ok")


@case("files")
def a_whole_path_is_what_its_user_may(box: Sandbox) -> None:
    files = box.files
    assert b"root" in files.read("/etc/passwd")
    assert "tmp" in files.listdir("/")
    place = f"/tmp/egress-{box.name}"
    files.write(f"{place}/file", "x")
    assert files.read(f"{place}/../egress-{box.name}/file") == b"x"
    files.remove(place, recursive=True)


@case("files")
def a_race_for_links_leads_nowhere_else(box: Sandbox) -> None:
    """Whoever swaps a folder for a link gets an error, or his own folder: never a write elsewhere."""
    place = f"/tmp/egress-race-{box.name}"
    box.exec(["mkdir", "-p", place, "turn"])
    swap = f"while :; do mv turn held; ln -s {place} turn; rm turn; mv held turn; done 2>/dev/null"
    with box.spawn(swap):
        for number in range(25):
            with suppress(
                PathOutsideError, PathNotFoundError, PathDeniedError, PathExistsError, PathKindError
            ):
                box.files.write(f"turn/{number}", "x")
    assert box.files.listdir(place) == []
    box.files.remove(place, recursive=True)


@case("files")
def files_and_folders_are_copied_in_and_out(box: Sandbox) -> None:
    with TemporaryDirectory() as name:
        host = Path(name)
        (host / "src/deep").mkdir(parents=True)
        (host / "src/a").write_text("a")
        (host / "src/deep/run").write_text("run")
        (host / "src/deep/run").chmod(0o755)
        (host / "src/link").symlink_to("a")
        (host / "src/out").symlink_to("/etc/passwd")
        box.files.copy_in(host / "src", "made/here")
        assert box.files.listdir("made/here") == ["a", "deep", "link"]
        assert box.files.stat("made/here/deep/run").mode & 0o700 == 0o700
        box.files.copy_in(host / "src/a", "single/b.txt")
        assert box.files.read("single/b.txt") == b"a"
        box.files.copy_in(host / "src/a", "single")
        box.files.copy_in(host / "src/a", "fresh/")
        assert box.files.read("single/a") == box.files.read("fresh/a") == b"a"
        box.files.copy_out("made", host / "back")
        assert (host / "back/here/deep/run").read_text() == "run"
        box.files.copy_out("single/b.txt", host / "b.txt")
        assert (host / "b.txt").read_text() == "a"
        with pytest.raises(UnreadableError):
            box.files.copy_in(host / "nowhere")
        with pytest.raises(PathNotFoundError):
            box.files.copy_out("nowhere", host / "x")


@case("files")
def the_workspace_is_saved_and_restored(box: Sandbox) -> None:
    with TemporaryDirectory() as name:
        archive = Path(name) / "workspace.tar"
        box.files.write("a/b", "kept")
        box.save(archive)
        box.files.write("a/b", "changed")
        box.files.write("more", "x")
        box.restore(archive)
        assert (box.files.read("a/b"), box.files.exists("more")) == (b"kept", True)
        with pytest.raises(ArchiveError):
            box.restore(io.BytesIO(b"no archive" * 100), clear=True)
        assert box.files.exists("more")
        with archive.open("rb") as file:
            box.restore(file, clear=True)
        assert box.files.listdir() == ["a"]
        out = io.BytesIO()
        box.save(out)
        assert out.tell() > 0


# Watching -------------------------------------------------------------------------------------------


@case("watch")
def what_changes_is_told(box: Sandbox) -> None:
    files = box.files
    files.write("src/old", "x")
    with files.watch("src", interval=0.1) as changes:
        files.write("src/new line\nname", "x")
        assert next(changes) == Change("made", "src/new line\nname")
        files.write("src/old", "changed")
        assert next(changes) == Change("changed", "src/old")
        files.mkdir("src/deep")
        assert next(changes) == Change("made", "src/deep")
        files.write("src/deep/file", "x")
        assert next(changes) == Change("made", "src/deep/file")
        files.remove("src/old")
        assert next(changes) == Change("removed", "src/old")


@case("watch")
def a_watch_ends_with_its_sandbox(box: Sandbox) -> None:
    with box.files.watch() as changes:
        box.stop()
        with pytest.raises(SandboxDiedError):
            next(changes)


@case("watch")
def a_watch_outside_the_workspace_is_refused(box: Sandbox) -> None:
    with pytest.raises(PathOutsideError), box.files.watch(".."):
        pass
    with pytest.raises(SpecError), box.files.watch(interval=0):
        pass


# Terminals ------------------------------------------------------------------------------------------


@case("terminal")
def a_terminal_shows_what_is_typed_and_said(box: Sandbox) -> None:
    with box.pty(["/bin/sh"], cols=100, rows=30, env={"PS1": "> "}) as terminal:
        terminal.write("echo $TERM; stty size\n")
        shown = b""
        for piece in terminal.read():
            shown += piece
            if b"30 100" in shown:
                break
        assert b"xterm-256color" in shown
        terminal.resize(cols=90, rows=20)
        assert (terminal.cols, terminal.rows) == (90, 20)
        assert "90x20" in repr(terminal)
        terminal.write("stty size\nexit 3\n")
        shown = b"".join(terminal.read())
        assert b"20 90" in shown
        assert terminal.wait(30) == 3


@case("terminal")
def closing_a_terminal_ends_its_program(box: Sandbox) -> None:
    terminal = box.pty("cat")
    with pytest.raises(SandboxTimeoutError):
        terminal.wait(0.05)
    terminal.close()
    assert terminal.wait(30) != 0
    terminal.close()
