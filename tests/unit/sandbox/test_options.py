"""What people write becomes what a runtime takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from egress.errors import UsageError
from egress.runtime.errors import SpecError
from egress.runtime.spec import Mount, SandboxLimits
from egress.sandbox import options


def test_a_text_is_for_the_shell_and_a_sequence_is_not() -> None:
    *script, line = options.command_words("a | b")
    assert (script[:2], line) == (["/bin/sh", "-c"], "a | b")
    assert "a | b" not in script
    assert options.command_words(["a", "| b"]) == ("a", "| b")
    with pytest.raises(SpecError):
        options.command([])


@pytest.mark.parametrize(
    ("size", "mib"),
    [(64, 64), ("512m", 512), ("2g", 2048), ("1.5G", 1536), ("2GiB", 2048), ("2048k", 2), ("1 GiB", 1024)],
)
def test_a_size_is_mib(size: float | str, mib: int) -> None:
    assert options.mib("memory", size) == mib


@pytest.mark.parametrize("size", ["", "x", "12", "-1g", "1x", True, float("nan"), float("inf")])
def test_what_is_no_size_is_refused(size: str) -> None:
    with pytest.raises(SpecError, match="memory"):
        options.mib("memory", size)


def test_limits_are_the_usual_unless_said() -> None:
    assert options.limits() == SandboxLimits()
    assert options.limits(memory="1g", cpus=0.5, pids=64, size="3g", temporary=64) == SandboxLimits(
        memory_mib=1024, cpus=0.5, processes=64, disk_mib=3072, temporary_mib=64
    )


@pytest.mark.parametrize(
    ("given", "field"),
    [({"memory": 1}, "memory_mib"), ({"size": 0}, "disk_mib"), ({"size": "1k"}, "disk_mib")],
)
def test_a_limit_that_is_none_is_refused(given: dict[str, options.Size], field: str) -> None:
    with pytest.raises(SpecError, match=field):
        options.limits(**given)  # type: ignore[arg-type]


def test_volumes_are_for_reading_unless_said() -> None:
    data = Mount(source=Path("/srv/data"), target="/data")
    assert options.mounts({"/srv/data": "/data"}) == (data,)
    assert options.mounts({Path("/srv/data"): "/data:rw"})[0].writable
    assert options.mounts([data]) == (data,)
    assert options.mounts(None) == ()


@pytest.mark.parametrize(
    ("source", "target", "cure"),
    [
        ("/srv", "/x:no", ":ro, :rw or nothing"),
        ("srv", "/x", "resolve()"),
        ("../srv", "/x", "resolve()"),
        ("/srv/../etc", "/x", "resolve()"),
        ("~/data", "/x", "expanduser()"),
        ("/srv", "../x", "begin it with /"),
        ("/srv", "x", "begin it with /"),
        ("/srv\n", "/x", "rename it"),
    ],
)
def test_a_volume_that_is_none_is_named_with_what_to_write(source: str, target: str, cure: str) -> None:
    with pytest.raises(SpecError) as caught:
        options.mounts({source: target})
    assert caught.value.message.startswith(f"volumes: {source!r}")
    assert cure in caught.value.hint


def test_only_variables_that_are_named_are_taken_from_the_caller() -> None:
    caller = {"A": "1", "B": "2", "PATH": "/mine"}
    assert options.variables({"A": None, "C": "3"}, lambda: caller) == {"A": "1", "C": "3"}
    assert options.variables(None, lambda: caller) == {}
    with pytest.raises(UsageError, match="NOPE"):
        options.variables({"NOPE": None}, lambda: caller)


def test_the_environment_is_not_looked_at_without_need() -> None:
    def never() -> dict[str, str]:
        raise AssertionError("nobody asked")

    assert options.variables({"A": "1"}, never) == {"A": "1"}


def test_names_are_not_made_up_twice() -> None:
    assert options.random_name() != options.random_name()


def test_nobody_is_root_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(os, "getgid", lambda: 0)
    assert options.caller_ids() == (1000, 1000)
    monkeypatch.setattr(os, "getuid", lambda: 501)
    monkeypatch.setattr(os, "getgid", lambda: 20)
    assert options.caller_ids() == (501, 20)
