"""What an engine says of itself is judged; a real socket answers in tests/proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.doctor import container_engine
from egress.doctor.container_engine import judged
from egress.doctor.diagnosis import Level
from tests.unit.doctor.proxy_setups import needs_care, only, patient

PLACE = Path("/run/docker.sock")


@pytest.mark.parametrize("version", ["23.0.0", "28.2.2", "27.3.1-ce", "26.1.5+dfsg1"])
def test_an_engine_that_is_recent_is_fine(version: str) -> None:
    found = judged(PLACE, {"Version": version, "Components": [{"Name": "Engine"}]})
    assert found.level is Level.OK
    assert version in found.fact


@pytest.mark.parametrize("version", ["20.10.24", "22.99.0"])
def test_an_engine_that_is_old_is_doubtful(version: str) -> None:
    needs_care(judged(PLACE, {"Version": version}), Level.WARNING, version)


@pytest.mark.parametrize("answer", [{}, {"Version": None}, {"Version": "\x1b[2J99.1"}, {"Version": "new"}])
def test_an_engine_that_does_not_say_is_doubtful_and_not_quoted(answer: dict[str, object]) -> None:
    found = judged(PLACE, answer)
    needs_care(found, Level.WARNING)
    assert "\x1b" not in found.fact


def test_podman_counts_otherwise() -> None:
    answer = {"Version": "5.2.0", "Components": [{"Name": "Podman Engine"}, "x"]}
    found = judged(PLACE, answer)
    assert found.level is Level.NOTE
    assert "Podman 5.2.0 answers at /run/docker.sock" in found.fact
    assert "--runtime namespace" in found.fix


@pytest.mark.parametrize("host", ["tcp://user:hunter2-hunter2@10.0.0.9:2375", "ssh://me@build.example.com"])
async def test_a_remote_engine_is_not_asked_and_not_shown(host: str, tmp_path: Path) -> None:
    found = only(await container_engine.check(patient(tmp_path, environ={"DOCKER_HOST": host})))
    assert found.level is Level.NOTE
    assert "hunter2" not in found.fact
    assert "example.com" not in found.fact


@pytest.mark.parametrize("there", [True, False])
async def test_no_engine_is_no_fault(there: bool, tmp_path: Path) -> None:
    if there:
        (tmp_path / "docker.sock").write_text("no socket")
    environ = {"DOCKER_HOST": f"unix://{tmp_path}/docker.sock"}
    found = only(await container_engine.check(patient(tmp_path, environ=environ)))
    assert found.level is Level.NOTE
    assert found.fact == f"no engine answers at {tmp_path}/docker.sock, which DOCKER_HOST names"


async def test_an_engine_in_a_virtual_machine_is_of_no_use() -> None:
    found = judged(PLACE, {"Version": "27.1.0", "KernelVersion": "6.8-of-colima"})
    assert found.level is Level.NOTE
    assert "runs in a virtual machine" in found.fact
    assert "--runtime namespace" in found.fix
