"""Planting: what is put on a sandbox, and the script that writes files, run by the shells of this machine."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from egress.rules.compile.canaries import RESERVED_VARIABLES
from egress.runtime import canary_planting
from egress.runtime.errors import SandboxStateError, SpecError, UnsupportedError
from egress.runtime.kit.variables import KIT_VARIABLES
from egress.runtime.protocol import Provisions, provision_minimal
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import Admission, PlantedCanary
from egress.runtime.spec import Command, ExecResult, Mount, Spec

VALUE = "AKIA-the-value"
SHELLS = [path for name in ("dash", "bash", "busybox", "ksh") if (path := shutil.which(name))]
SPEC = Spec(name="one", image="any")
ENTRANCE = ProxyAddress("127.0.0.1", 3128)


class Machine:
    """A shell of this machine, in the place of that of a sandbox."""

    def __init__(self, shell: str, home: Path) -> None:
        self.shell = shell
        self.env = {"HOME": str(home), "PATH": os.defpath}
        self.asked: list[Command] = []

    def run(self, command: Command) -> ExecResult:
        self.asked.append(command)
        assert command.argv[0] == "/bin/sh"
        words = (self.shell, *(("sh",) if self.shell.endswith("busybox") else ()), *command.argv[1:])
        assert isinstance(command.input, bytes)
        done = subprocess.run(words, input=command.input, capture_output=True, env=self.env, check=False)
        return ExecResult(exit_code=done.returncode, stdout_bytes=done.stdout, stderr_bytes=done.stderr)

    def plant(self, *canaries: PlantedCanary, again: bool = False, mounts: tuple[Mount, ...] = ()) -> None:
        spec, outfit = replace(SPEC, mounts=mounts), Provisions(planted=canaries)
        canary_planting.plant(self.run, spec, outfit, again=again)


@pytest.fixture(params=SHELLS, ids=lambda shell: Path(shell).name)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    (tmp_path / "home").mkdir()
    return Machine(request.param, tmp_path / "home")


def canary(path: object, content: str = VALUE, name: str = "key") -> PlantedCanary:
    return PlantedCanary(name, VALUE, file=str(path), content=content)


# Variables ------------------------------------------------------------------------------------------


def dressed(
    *canaries: PlantedCanary, spec: Spec = SPEC, variables: dict[str, str] | None = None
) -> Provisions:
    admission = Admission("one", "authority", canaries=canaries)
    dress = (lambda *_: Provisions(variables=variables)) if variables else provision_minimal
    return canary_planting.provision_with_canaries(dress, admission, ENTRANCE, spec)


def test_an_outfit_has_what_is_planted() -> None:
    both, file = PlantedCanary("a", "v1", env="KEY", file="/a", content="v1"), canary("/b")
    outfit = dressed(both, file, PlantedCanary("c", "v3"), variables={"OTHER": "x"})
    assert dict(outfit.variables) == {"OTHER": "x", "KEY": "v1"}
    assert outfit.planted == (both, file)


def test_without_canaries_it_is_the_one_of_the_dresser() -> None:
    assert dressed() == provision_minimal(Admission("one", "authority"), ENTRANCE)


def test_a_variable_of_somebody_else_is_not_written_over() -> None:
    planted = PlantedCanary("key", VALUE, env="KEY")
    with pytest.raises(SpecError, match="env sets KEY, the variable of the canary key") as caught:
        dressed(planted, spec=replace(SPEC, env={"KEY": "mine"}))
    assert VALUE not in f"{caught.value}{caught.value.hint}"
    with pytest.raises(SpecError, match="cannot use KEY: every sandbox sets it"):
        dressed(planted, variables={"KEY": "kit"})


def test_rules_refuse_the_variables_of_every_sandbox() -> None:
    """They cannot import what sets them, so they have a list of their own."""
    assert {each.name for each in KIT_VARIABLES} <= RESERVED_VARIABLES


# Files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["plain", "a b", "-n", "$HOME", "`id`", "*", "a'b\"c", "a\\tb", "ü", "~", "{value}", "a;b"]
)
def test_a_path_is_a_path_whatever_is_in_it(machine: Machine, tmp_path: Path, name: str) -> None:
    machine.plant(canary(tmp_path / name / name / name), canary(tmp_path / f"{name}-2"))
    assert (tmp_path / name / name / name).read_text() == f"{VALUE}\n"
    assert (tmp_path / f"{name}-2").read_text() == f"{VALUE}\n"


@pytest.mark.parametrize(
    "content",
    [VALUE, f"{VALUE}\n", f"\n\n  {VALUE}  \n\n", f"%s \\n $HOME `id` -n\n\t{VALUE}\\", f"ü{VALUE}ü"],
)
def test_a_content_is_written_as_it_is(machine: Machine, tmp_path: Path, content: str) -> None:
    machine.plant(canary(tmp_path / "a", content), canary(tmp_path / "b"))
    assert (tmp_path / "a").read_text() == content.removesuffix("\n") + "\n"
    assert (tmp_path / "b").read_text() == f"{VALUE}\n"


def test_no_value_stands_in_an_argument(machine: Machine, tmp_path: Path) -> None:
    machine.plant(canary(tmp_path / "a"))
    [command] = machine.asked
    assert not any(VALUE in word for word in command.argv)
    assert not any(VALUE in value for value in command.env.values())
    assert isinstance(command.input, bytes)
    assert VALUE.encode() in command.input
    assert command.most_output < 10_000


def test_nothing_is_begun_where_nothing_is_planted(machine: Machine) -> None:
    machine.plant()
    assert machine.asked == []


def test_a_home_is_where_its_variable_says(machine: Machine, tmp_path: Path) -> None:
    machine.env["HOME"] += "/"
    machine.plant(canary("~/.aws/key"))
    assert (tmp_path / "home/.aws/key").read_text() == f"{VALUE}\n"
    for home in ("", "relative"):
        machine.env["HOME"] = home
        with pytest.raises(SandboxStateError, match=r"canary key .* at ~/b .*: it has no home"):
            machine.plant(canary("~/b"))


def test_it_is_for_the_user_alone(machine: Machine, tmp_path: Path) -> None:
    machine.plant(canary(tmp_path / "new/deep/a"))
    modes = [stat.S_IMODE((tmp_path / path).stat().st_mode) for path in ("new", "new/deep", "new/deep/a")]
    assert modes == [0o700, 0o700, 0o600]


# What is in the way ---------------------------------------------------------------------------------


def test_nothing_is_written_over(machine: Machine, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("before")
    for path in (there, tmp_path, there / "below", there / "far/below"):
        with pytest.raises(SandboxStateError, match="a file is there already"):
            machine.plant(canary(path))
    assert there.read_text() == "before"


@pytest.mark.parametrize("again", [False, True])
def test_nothing_is_written_through_a_link(machine: Machine, tmp_path: Path, *, again: bool) -> None:
    """Where the file is to be: one that leads to a file, and one that leads nowhere yet."""
    (tmp_path / "other").write_text("before")
    (tmp_path / "to-other").symlink_to(tmp_path / "other")
    (tmp_path / "to-nothing").symlink_to(tmp_path / "nothing")
    for name in ("to-other", "to-nothing"):
        if again:
            machine.plant(canary(tmp_path / name), again=True)
        else:
            with pytest.raises(SandboxStateError, match="a file is there already"):
                machine.plant(canary(tmp_path / name))
        with pytest.raises(SandboxStateError, match="a file is there already"):
            machine.plant(canary(tmp_path / "to-nothing" / "below"), again=again)
    assert (tmp_path / "other").read_text() == "before"
    assert not (tmp_path / "nothing").exists()


def test_what_is_there_by_now_stays(machine: Machine, tmp_path: Path) -> None:
    machine.plant(canary(tmp_path / "a"), canary(tmp_path / "b"))
    (tmp_path / "a").write_text("changed")
    (tmp_path / "b").unlink()
    machine.plant(canary(tmp_path / "a"), canary(tmp_path / "b"), canary(tmp_path / "c"), again=True)
    assert [(tmp_path / name).read_text() for name in "abc"] == ["changed", f"{VALUE}\n", f"{VALUE}\n"]


def test_a_link_to_a_folder_of_the_sandbox_is_followed(machine: Machine, tmp_path: Path) -> None:
    """As images have them: /var/run, or a home that lies elsewhere."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    machine.plant(canary(tmp_path / "link/new/a"))
    assert (tmp_path / "real/new/a").read_text() == f"{VALUE}\n"


def test_what_is_mounted_is_not_written_whichever_way_leads_there(machine: Machine, tmp_path: Path) -> None:
    """A file of this machine would hold it, or a folder of this machine be made."""
    mounted = tmp_path / "real/mounted"
    mounted.mkdir(parents=True)
    (tmp_path / "link").symlink_to(mounted)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/link").symlink_to("../link")
    (tmp_path / "target").symlink_to(tmp_path / "real")
    mounts = (Mount(source=Path("/srv"), target=f"{tmp_path}/target/mounted/"),)
    ways = [mounted, tmp_path / "link", tmp_path / "deep/link", tmp_path / "target/mounted"]
    for way in ways:
        for path in (way / "a", way / "new/a"):
            with pytest.raises(SandboxStateError, match="a folder of this machine is mounted there"):
                machine.plant(canary(path), mounts=mounts)
            assert list(mounted.iterdir()) == []
    machine.plant(canary(tmp_path / "real/mounted-not"), canary(tmp_path / "real/a/mounted"), mounts=mounts)
    machine.plant(canary(mounted / "a"))


def test_a_mount_that_is_not_there_yet_is_kept_free(machine: Machine, tmp_path: Path) -> None:
    mounts = (Mount(source=Path("/srv"), target=f"{tmp_path}/later"),)
    for path in (tmp_path / "later", tmp_path / "later/a"):
        with pytest.raises(SandboxStateError, match="mounted there"):
            machine.plant(canary(path), mounts=mounts)
    assert not (tmp_path / "later").exists()


def test_where_nobody_may_write_it_is_told(machine: Machine) -> None:
    for path, why in (("/proc/new/key", "its user may not create a folder"), ("/proc/key", "may not write")):
        with pytest.raises(SandboxStateError, match=why) as caught:
            machine.plant(canary(path))
        assert "plant it where its user may write" in caught.value.hint


def test_a_full_disk_is_told(machine: Machine, tmp_path: Path) -> None:
    limited = tmp_path / "limited"
    limited.write_text(f'#!/bin/sh\nulimit -f 1\ntrap "" XFSZ\nexec {machine.shell} "$@"\n')
    limited.chmod(0o755)
    machine.shell = str(limited)
    with pytest.raises(SandboxStateError, match="or the disk is full"):
        machine.plant(canary(tmp_path / "a", "x" * 4096))


def test_the_one_that_cannot_be_planted_is_named(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("before")
    first, third = canary(tmp_path / "a", name="first"), canary(tmp_path / "b", name="third")
    with pytest.raises(SandboxStateError, match="the canary second ") as caught:
        machine.plant(first, canary(tmp_path / "there", name="second"), third)
    assert VALUE not in f"{caught.value}{caught.value.hint}"
    assert not (tmp_path / "b").exists()


def test_without_mkdir_a_folder_has_to_be_there(machine: Machine, tmp_path: Path) -> None:
    machine.env["PATH"] = str(tmp_path)
    machine.plant(canary(tmp_path / "a"))
    if not machine.shell.endswith("busybox"):  # It has one in itself.
        with pytest.raises(UnsupportedError, match="has no mkdir, so the canary key"):
            machine.plant(canary(tmp_path / "new/a"))


# What is not said as it should be -------------------------------------------------------------------


@pytest.mark.parametrize("status", [126, 127])
def test_an_image_without_a_shell_is_told(status: int) -> None:
    def run(_: Command) -> ExecResult:
        return ExecResult(exit_code=status)

    with pytest.raises(UnsupportedError, match="the image of the sandbox one has no /bin/sh"):
        canary_planting.plant(run, SPEC, Provisions(planted=(canary("/a"),)))


@pytest.mark.parametrize(
    ("said", "name"),
    [(b"2\n", "b"), (b"", "a"), (b"0", "a"), (b"9", "b"), (b"-1", "a"), (b"1e1", "a"), (b"9" * 999, "a")],
)
def test_what_a_sandbox_says_is_not_believed_too_far(said: bytes, name: str) -> None:
    """Also where it is killed, or has a shell of its own making."""

    def run(_: Command) -> ExecResult:
        return ExecResult(exit_code=137, stdout_bytes=said, stderr_bytes=b"\x1b[2J")

    with pytest.raises(SandboxStateError, match=f"the canary {name} .* its shell failed"):
        canary_planting.plant(run, SPEC, Provisions(planted=(canary("/a", name="a"), canary("/b", name="b"))))


def test_a_canary_does_not_show_its_value() -> None:
    assert VALUE not in repr(canary("/a"))
    assert VALUE not in repr(Admission("one", "x", canaries=(canary("/a"),), seed=VALUE))
    assert VALUE not in repr(Provisions(planted=(canary("/a"),)))
