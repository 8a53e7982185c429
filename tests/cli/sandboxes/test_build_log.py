"""What a builder prints is in a file; the screen gets its end, and only if the build fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.cli.sandboxes.build_log import SHOWN_LINES, logged_build
from egress.errors import EgressError, UnreadableError
from egress.runtime.docker.images.builder import BuildFailedError
from egress.runtime.errors import UnsupportedError

Captured = pytest.CaptureFixture[str]
FLOOD = [f"Unpacking package {number} ..." for number in range(400)]


def fail(state: Path, error: EgressError, *, is_verbose: bool) -> None:
    """A build that prints much and fails."""
    with logged_build("egress-sandbox", state, is_verbose=is_verbose) as log:
        for line in FLOOD:
            log.output(line)
        raise error


def test_the_flood_of_a_builder_goes_into_a_file_of_this_user(tmp_path: Path, capsys: Captured) -> None:
    state = tmp_path / "state"
    with logged_build("egress-sandbox", state, is_verbose=False) as log:
        log.step("Step 1/2 : RUN apt-get install")
        for line in FLOOD:
            log.output(line)
    assert capsys.readouterr() == ("", "")
    file = state / "build-egress-sandbox.log"
    assert file.read_text("utf-8").splitlines() == ["Step 1/2 : RUN apt-get install", *FLOOD]
    assert file.stat().st_mode & 0o777 == 0o600
    # The next build begins anew.
    with logged_build("egress-sandbox", state, is_verbose=False) as log:
        log.output("again")
    assert file.read_text("utf-8") == "again\n"


def test_a_build_that_fails_shows_its_last_lines_and_names_the_file(tmp_path: Path, capsys: Captured) -> None:
    message = f"cannot build the image: {FLOOD[-1]} | no such package"
    error = BuildFailedError(message, "fix it", "cannot build the image: no such package")
    with pytest.raises(BuildFailedError) as caught:
        fail(tmp_path, error, is_verbose=False)
    printed = capsys.readouterr()
    assert printed.err.splitlines() == FLOOD[-SHOWN_LINES:]
    assert printed.out == ""
    # The lines stand above, and are not repeated.
    assert caught.value.message == "cannot build the image: no such package"
    assert caught.value.hint == f"fix it; the log of the build: {tmp_path}/build-egress-sandbox.log"


def test_a_build_that_was_refused_before_it_began_names_no_file(tmp_path: Path, capsys: Captured) -> None:
    with (
        pytest.raises(UnsupportedError) as caught,
        logged_build("egress-sandbox", tmp_path, is_verbose=False),
    ):
        raise UnsupportedError("debootstrap is not installed", "install it")
    assert caught.value.hint == "install it"
    assert capsys.readouterr() == ("", "")


def test_a_verbose_build_prints_everything_once(tmp_path: Path, capsys: Captured) -> None:
    with pytest.raises(UnsupportedError):
        fail(tmp_path, UnsupportedError("no", "yes"), is_verbose=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == FLOOD


def test_the_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine", "utf-8")
    (tmp_path / "build-egress-proxy.log").symlink_to(other)
    with pytest.raises(UnreadableError, match=r"build-egress-proxy\.log"):
        logged_build("egress-proxy", tmp_path, is_verbose=False).__enter__()
    assert other.read_text("utf-8") == "mine"
