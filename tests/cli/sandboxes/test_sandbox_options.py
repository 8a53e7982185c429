"""What options ask for, and the texts that they are asked with."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.cli.sandboxes import sandbox_options
from egress.errors import UsageError
from egress.runtime.spec import Mount, SandboxLimits, check_name


def test_made_up_names_are_names_and_differ() -> None:
    names = {sandbox_options.fresh_name() for _ in range(50)}
    assert len(names) == 50
    for name in names:
        check_name(name)


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("/srv/data", Mount(source=Path("/srv/data"), target="/workspace")),
        ("/srv/data:/data", Mount(source=Path("/srv/data"), target="/data")),
        ("/srv/data:/data:ro", Mount(source=Path("/srv/data"), target="/data")),
        ("/srv/./data/:/data:rw", Mount(source=Path("/srv/data"), target="/data", writable=True)),
        ("/srv/data::rw", Mount(source=Path("/srv/data"), target="/workspace", writable=True)),
    ],
)
def test_a_mount_names_a_folder_and_where_it_is_seen(text: str, mount: Mount) -> None:
    assert sandbox_options.read_mount(text) == mount


def test_a_mount_may_be_told_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sandbox_options.read_mount(".:/workspace:rw").source == tmp_path


@pytest.mark.parametrize("text", ["", ":/data", "/a:/b:rwx", "/a:/b:rw:more"])
def test_what_is_no_mount_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--mount"):
        sandbox_options.read_mount(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("45", 45), (None, None)]
)
def test_times_are_read(text: str | None, seconds: float | None) -> None:
    assert sandbox_options.read_seconds("--timeout", text) == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "0", "1.5h", ""])
def test_what_is_no_time_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--timeout"):
        sandbox_options.read_seconds("--timeout", text)


def test_what_is_not_asked_for_is_as_usual() -> None:
    assert sandbox_options.limits(None, None, None) == SandboxLimits()
    assert sandbox_options.limits("1 GiB", 0.5, 64) == SandboxLimits(memory_mib=1024, cpus=0.5, processes=64)


def test_a_size_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="--memory"):
        sandbox_options.limits("a lot", None, None)
