"""What is asked for is checked when it is said, and the error names the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.runtime.errors import CommandError, ExecTimeoutError, SpecError
from egress.runtime.spec import (
    Command,
    ExecResult,
    Mount,
    SandboxLimits,
    Spec,
    Terminal,
    check_name,
    check_path,
    check_ports,
)

Values = dict[str, object]


@pytest.mark.parametrize("name", ["a", "agent-2", "a.b_c", "0", "a" * 63])
def test_a_plain_name_is_one(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a/b", "a b", "a" * 64, "ä", "a\n", "..", "a\0"])
def test_another_one_is_none(name: str) -> None:
    with pytest.raises(SpecError, match=r"^name "):
        check_name(name)


@pytest.mark.parametrize("path", ["", "a", "../a", "//a", "/a/../b", "/a\n", "/\0", "/a\x1b"])
def test_a_path_that_is_not_whole_is_refused(path: str) -> None:
    with pytest.raises(SpecError, match=r"^where "):
        check_path("where", path)
    check_path("where", "/a/b c/..d")


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": "A"}, "name"), ({"image": ""}, "image"), ({"image": "-x"}, "image"),
        ({"image": "a b"}, "image"),
        ({"user": -1}, "user"), ({"group": True}, "group"), ({"workdir": "here"}, "workdir"),
        ({"workdir": "/"}, "workdir"), ({"workdir": "/./"}, "workdir"),
        ({"ports": (0,)}, "ports"), ({"ports": (80, 65536)}, "ports"),
        ({"env": {"1A": ""}}, "env"), ({"env": {"A=B": ""}}, "env"), ({"env": {"A": "\0"}}, "env"),
        ({"labels": {"": ""}}, "labels"), ({"labels": {"egress.role": "x"}}, "labels"),
        ({"labels": {"a": "\n"}}, "labels"), ({"labels": {"a": "x" * 1001}}, "labels"),
    ],
)  # fmt: skip
def test_a_sandbox_that_cannot_be_is_refused_by_the_name_of_the_field(values: Values, field: str) -> None:
    good: Values = {"name": "one", "image": "debian:12"}
    Spec(**good)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=rf"^{field}"):
        Spec(**{**good, **values})  # type: ignore[arg-type]


def test_one_path_holds_one_mount() -> None:
    mounts = (Mount(source=Path("/a"), target="/x"), Mount(source=Path("/b"), target="/x/"))
    with pytest.raises(SpecError, match="twice"):
        Spec(name="one", image="any", mounts=mounts)


@pytest.mark.parametrize(("source", "target"), [("a", "/x"), ("/a\n", "/x"), ("/a", "x"), ("/a", "/x/../y")])
def test_a_mount_has_whole_paths(source: str, target: str) -> None:
    with pytest.raises(SpecError, match=r"^mounts"):
        Mount(source=Path(source), target=target)


@pytest.mark.parametrize(
    "values",
    [
        {"memory_mib": 15}, {"cpus": 0}, {"processes": 7}, {"temporary_mib": 0}, {"cpus": float("nan")},
        {"disk_mib": 0}, {"disk_mib": -1}, {"disk_mib": True}, {"disk_mib": (1 << 24) + 1},
    ],
)  # fmt: skip
def test_limits_are_within_reason(values: Values) -> None:
    with pytest.raises(SpecError, match=r"^limits"):
        SandboxLimits(**values)  # type: ignore[arg-type]


def test_bounds_are_told_as_people_write_numbers() -> None:
    with pytest.raises(SpecError) as caught:
        SandboxLimits(memory_mib=1)
    assert caught.value.hint == "use a number from 16 to 16777216"
    with pytest.raises(SpecError) as caught:
        SandboxLimits(cpus=0)
    assert caught.value.hint == "use a number from 0.01 to 4096"


@pytest.mark.parametrize(
    ("values", "is_closed"),
    [({}, False), ({"read_only": True}, True), ({"limits": SandboxLimits(disk_mib=1)}, True)],
)
def test_what_is_bounded_leaves_its_image_as_it_is(values: Values, is_closed: bool) -> None:
    assert Spec(name="one", image="any", **values).has_read_only_image is is_closed  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"argv": ()}, "argv"), ({"argv": ("",)}, "argv"), ({"argv": ("a", "b\0")}, "argv"),
        ({"cwd": "a"}, "cwd"), ({"timeout": 0}, "timeout"), ({"timeout": float("inf")}, "timeout"),
        ({"grace": -1}, "grace"), ({"most_output": -1}, "most_output"), ({"env": {"": "x"}}, "env"),
        ({"terminal": Terminal(), "timeout": 1}, "a command in a terminal"),
        ({"terminal": Terminal(), "input": b""}, "a command in a terminal"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_is_refused(values: Values, field: str) -> None:
    with pytest.raises(SpecError, match=rf"^{field}"):
        Command(**{"argv": ("true",), **values})  # type: ignore[arg-type]


def test_values_do_not_change_with_what_they_were_made_of() -> None:
    env, labels = {"A": "1"}, {"a": "1"}
    spec, command = Spec(name="one", image="any", env=env, labels=labels), Command(argv=("true",), env=env)
    env["A"] = labels["a"] = "2"
    assert (spec.env["A"], spec.labels["a"], command.env["A"]) == ("1", "1", "1")
    with pytest.raises(TypeError):
        spec.env["A"] = "3"  # type: ignore[index]


@pytest.mark.parametrize(("columns", "rows"), [(0, 24), (80, 0), (10_001, 24)])
def test_a_terminal_has_a_size(columns: int, rows: int) -> None:
    with pytest.raises(SpecError, match=r"^terminal"):
        Terminal(columns=columns, rows=rows)


def test_ports_are_ports() -> None:
    check_ports((1, 65535))
    with pytest.raises(SpecError):
        check_ports((-1,))


def test_output_is_text_and_bytes_on_request() -> None:
    result = ExecResult(exit_code=0, stdout_bytes=b"\xc3\xbc\xff", stderr_bytes=b"\xc3")
    assert (result.stdout, result.stderr, result.text) == ("ü\ufffd", "\ufffd", "ü\ufffd")


def test_a_result_is_checked_for_those_who_want_that() -> None:
    good = ExecResult(exit_code=0, stdout_bytes=b"\xff ok")
    assert good.check() is good
    assert good.text == "� ok"
    with pytest.raises(CommandError, match="status 3"):
        ExecResult(exit_code=3).check()
    with pytest.raises(ExecTimeoutError, match=r"after 1\.5s"):
        ExecResult(exit_code=124, duration=1.5, timed_out=True).check()
