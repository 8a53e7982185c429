"""Which engine is taken: the one that the Docker client would take, or none."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.engine_socket import (
    ENGINE_SOCKET,
    EngineSocket,
    engine_sockets,
    find_engine,
    is_socket,
    unfit_engine,
)
from egress.runtime.errors import EngineUnavailableError, UnsupportedError

CONTEXT = "far & away"


def bound(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A socket of the file system, on which nobody listens.
    os.mknod(path, stat.S_IFSOCK | 0o600)
    return path


def knows(folder: Path, host: object, *, name: str = CONTEXT, is_current: bool = True) -> None:
    """Let the client have a context, as `docker context create` writes it."""
    meta = folder / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest() / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))
    (folder / "config.json").write_text(json.dumps({"currentContext": name} if is_current else {}))


def test_the_usual_places_are_tried_in_turn_and_podman_last(tmp_path: Path) -> None:
    found = engine_sockets({"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "/run/user/1000"})
    assert [str(each.path) for each in found] == [
        "/var/run/docker.sock",
        "/run/user/1000/docker.sock",
        *(f"{tmp_path}/{name}" for name in (".docker/run/docker.sock", ".docker/desktop/docker.sock")),
        f"{tmp_path}/.colima/default/docker.sock",
        "/run/user/1000/podman/podman.sock",
        "/run/podman/podman.sock",
    ]
    assert not any(each.named_by for each in found)


def test_folders_that_are_relative_are_none() -> None:
    found = engine_sockets({"HOME": "here", "XDG_RUNTIME_DIR": "there"})
    assert [str(each.path) for each in found] == ["/var/run/docker.sock", "/run/podman/podman.sock"]
    assert engine_sockets({}) == found


def test_docker_host_is_honoured_and_not_replaced(tmp_path: Path) -> None:
    knows(tmp_path / ".docker", "unix:///of/the/context")
    environ = {
        "HOME": str(tmp_path),
        "DOCKER_HOST": f"unix://{tmp_path}/mine.sock",
        "DOCKER_CONTEXT": CONTEXT,
    }
    assert engine_sockets(environ) == (EngineSocket(tmp_path / "mine.sock", "DOCKER_HOST"),)
    with pytest.raises(EngineUnavailableError, match=r"mine\.sock, which DOCKER_HOST names") as caught:
        find_engine(environ)
    assert caught.value.hint == "start that engine, or change DOCKER_HOST"
    assert (
        find_engine({**environ, "DOCKER_HOST": f"unix://{bound(tmp_path / 'mine.sock')}"})
        == tmp_path / "mine.sock"
    )


@pytest.mark.parametrize(
    "host",
    ["tcp://any:hunter2-hunter2@10.0.0.9:2375", "ssh://me@far.example.com", "unix://", "unix://x", "/x"],
)
def test_an_engine_elsewhere_is_refused_and_its_address_not_shown(host: str) -> None:
    with pytest.raises(
        UnsupportedError, match="DOCKER_HOST names an engine that is not at a socket"
    ) as caught:
        engine_sockets({"DOCKER_HOST": host})
    assert "hunter2" not in str(caught.value) + caught.value.hint
    assert "far.example.com" not in str(caught.value) + caught.value.hint


def test_the_context_of_the_client_is_honoured(tmp_path: Path) -> None:
    knows(tmp_path / ".docker", f"unix://{tmp_path}/far.sock")
    usual = {"HOME": str(tmp_path)}
    assert engine_sockets(usual) == (EngineSocket(tmp_path / "far.sock", f"the docker context {CONTEXT}"),)
    # One that is named goes before the current one, and `default` is none.
    assert engine_sockets({**usual, "DOCKER_CONTEXT": "default"})[0].path == ENGINE_SOCKET
    knows(tmp_path / "other", "unix:///other", name="other", is_current=False)
    other = {**usual, "DOCKER_CONFIG": str(tmp_path / "other")}
    assert engine_sockets(other)[0].path == ENGINE_SOCKET
    assert engine_sockets({**other, "DOCKER_CONTEXT": "other"})[0].path == Path("/other")


@pytest.mark.parametrize("host", ["tcp://10.0.0.9:2375", "npipe:////./pipe/docker"])
def test_a_context_of_another_machine_is_refused(tmp_path: Path, host: str) -> None:
    knows(tmp_path / ".docker", host)
    with pytest.raises(UnsupportedError, match="the docker context far & away names an engine"):
        engine_sockets({"HOME": str(tmp_path)})


@pytest.mark.parametrize("host", [None, 7, ["unix:///x"], {}])
def test_a_context_that_is_none_is_refused(tmp_path: Path, host: object) -> None:
    knows(tmp_path / ".docker", host)
    with pytest.raises(EngineUnavailableError, match="is not known here"):
        engine_sockets({"HOME": str(tmp_path)})


@pytest.mark.parametrize("name", ["../../x", "nonesuch", "a\x1b[2J\n" * 100])
def test_a_context_that_is_not_there_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(EngineUnavailableError) as caught:
        engine_sockets({"HOME": str(tmp_path), "DOCKER_CONTEXT": name})
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", '{"currentContext": 7}', "[" * 100_000, '{"currentContext": ""}']
)
def test_settings_that_are_none_count_for_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker/config.json").write_text(text)
    assert engine_sockets({"HOME": str(tmp_path)})[0].path == ENGINE_SOCKET


def test_the_first_place_with_a_socket_is_taken(tmp_path: Path) -> None:
    own = tmp_path / "run"
    environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(own)}
    places = [each.path for each in engine_sockets(environ)][1:]
    bound(own / "podman/podman.sock")
    bound(own / "docker.sock")
    assert next(path for path in places if is_socket(path)) == own / "docker.sock"
    (tmp_path / "file").write_text("")
    assert not is_socket(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ({"Version": "5.2\n", "Components": [{"Name": "Podman Engine"}, "x"]}, "Podman 5.2? answers at /s"),
        ({"Version": "27.1", "KernelVersion": "6.8.0-of-a-virtual-machine"}, "runs in a virtual machine"),
    ],
)
def test_an_engine_that_cannot_run_sandboxes_is_refused_with_its_reason(
    version: dict[str, object], said: str
) -> None:
    found = unfit_engine(Path("/s"), version)
    assert found is not None
    assert said in found.message
    assert "--runtime namespace" in found.hint


@pytest.mark.parametrize(
    "version",
    [
        {},
        {"Version": "27.1", "KernelVersion": os.uname().release, "Components": [{"Name": "Engine"}]},
        {"KernelVersion": 7, "Components": "x"},
        {"KernelVersion": ""},
    ],
)
def test_an_engine_of_this_machine_is_fit(version: dict[str, object]) -> None:
    assert unfit_engine(Path("/s"), version) is None


def test_the_engine_itself_says_where_it_does_not_answer() -> None:
    with pytest.raises(EngineUnavailableError, match="no engine answers at /nonexistent/x"):
        DockerEngine(Path("/nonexistent/x"))
