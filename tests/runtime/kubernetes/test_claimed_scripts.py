"""The scripts of commands in a pod of somebody's template."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from egress.runtime.errors import UnsupportedError
from egress.runtime.kubernetes import claimed_scripts
from egress.runtime.kubernetes.claimed_scripts import packed_scripts, write_scripts
from egress.runtime.kubernetes.pod_command import PodRun, PodTarget
from egress.runtime.kubernetes.pod_manifest import SCRIPTS
from egress.runtime.kubernetes.pods import Pods
from tests.runtime.kubernetes.fake_cluster import CommandRequest, FakeCluster, Played, served
from tests.runtime.test_proc_scripts import HERE

UNPACK = Path(claimed_scripts.__file__).with_name("unpack.sh")


@pytest.mark.parametrize("shell", HERE, ids=" ".join)
def test_every_shell_unpacks_them_as_they_were(shell: list[str], tmp_path: Path) -> None:
    folder, workdir = tmp_path / "scripts", tmp_path / "work"
    subprocess.run(
        [*shell, "-c", UNPACK.read_text("ascii"), "sh", str(folder), str(workdir)],
        input=packed_scripts(),
        check=True,
        env={"PATH": os.defpath},
    )
    assert {path.name: path.read_text("ascii") for path in folder.iterdir()} == dict(SCRIPTS)
    assert workdir.is_dir()
    assert folder.stat().st_mode & 0o077 == 0


def test_a_pod_that_takes_none_is_refused() -> None:
    cluster, asked = FakeCluster(), list[CommandRequest]()

    def refuse(request: CommandRequest) -> Played:
        asked.append(request)
        return Played(41)

    cluster.program = refuse
    cluster.add_pod("one", {}, {})
    with served(cluster) as api:
        target = PodTarget(Pods(api), "one", "/workspace", PodRun("one", "uid-2", "c", scripts="/tmp/s"))
        with pytest.raises(UnsupportedError, match="takes no commands"):
            write_scripts(target, 30)
        cluster.program = lambda _: Played()
        write_scripts(target, 30)
    assert asked[0].data == packed_scripts()
    assert asked[0].words[-2:] == ["/tmp/s", "/workspace"]
