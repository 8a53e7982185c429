"""Which kind of sandboxes is chosen, and that nothing else comes in its place."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from egress.fleet import runtime_choice
from egress.fleet.runtime_choice import (
    RuntimeChoice,
    RuntimeParameters,
    check_choice,
    choose_runtime,
    open_runtime,
    read_kind,
)
from egress.runtime.docker import engine
from egress.runtime.docker.engine_socket import EngineSocket
from egress.runtime.errors import EngineUnavailableError, ImageMissingError, SpecError, UnsupportedError
from egress.runtime.fake import FakeProxyClient
from egress.runtime.protocol import provision_minimal

NOWHERE = Path("/nonexistent/docker.sock")
ELSEWHERE = {"DOCKER_HOST": f"unix://{NOWHERE}"}


def test_an_argument_goes_before_the_variable() -> None:
    assert read_kind("docker", "namespace") == "docker"
    assert read_kind(None, "namespace") == "namespace"
    assert read_kind(None, None) is None
    assert read_kind(None, "") is None


@pytest.mark.parametrize(
    ("asked", "variable", "named"), [("a b", None, "runtime"), (None, "--x", "EGRESS_RUNTIME")]
)
def test_a_kind_that_is_none_is_refused_where_it_was_named(
    asked: str | None, variable: str | None, named: str
) -> None:
    with pytest.raises(SpecError, match=f"{named} is not the name of a runtime") as caught:
        read_kind(asked, variable)
    assert caught.value.hint == "use docker, namespace, kubernetes, or a runtime of the engine"


def test_a_runtime_of_the_engine_is_passed_on() -> None:
    assert read_kind("runsc", None) == "runsc"
    with pytest.raises(EngineUnavailableError):
        choose_runtime("runsc", ELSEWHERE)


def test_a_profile_for_containers_is_not_left_out_in_silence(tmp_path: Path) -> None:
    place = RuntimeParameters(
        FakeProxyClient(), tmp_path, provision_minimal, seccomp=tmp_path / "seccomp.json"
    )
    with pytest.raises(SpecError, match="needs the docker runtime"):
        open_runtime(RuntimeChoice("namespace", "requested"), place)


def test_what_is_wrong_with_a_choice_shows_before_anything_is_started(tmp_path: Path) -> None:
    here = RuntimeChoice("namespace", "requested")
    check_choice(here, None)
    check_choice(here, None, ("host",))
    with pytest.raises(SpecError, match="needs the docker runtime"):
        check_choice(here, tmp_path / "seccomp.json")
    with pytest.raises(ImageMissingError, match="no image some"):
        check_choice(here, None, ("host", "some"))


def test_an_engine_is_asked_only_where_it_has_something_to_say(tmp_path: Path) -> None:
    """Whether it answers was seen when it was chosen."""
    check_choice(RuntimeChoice("docker", "requested", engine=NOWHERE), None)
    asked = (
        (RuntimeChoice("docker", "with runsc", "runsc", NOWHERE), None, ()),
        (RuntimeChoice("docker", "requested", engine=NOWHERE), tmp_path / "seccomp.json", ()),
        (RuntimeChoice("docker", "requested", engine=NOWHERE), None, ("some",)),
    )
    for choice, seccomp, images in asked:
        with pytest.raises(EngineUnavailableError):
            check_choice(choice, seccomp, images)


def test_namespaces_stand_in_where_no_engine_answers_and_say_why() -> None:
    why = f"no engine answers at {NOWHERE}, which DOCKER_HOST names"
    assert choose_runtime(None, ELSEWHERE) == RuntimeChoice("namespace", why)
    remote = choose_runtime(None, {"DOCKER_HOST": "tcp://10.0.0.9:2375"})
    assert (remote.kind, "is not at a socket of this machine" in remote.why) == ("namespace", True)


def test_what_was_asked_for_is_not_replaced() -> None:
    assert choose_runtime("namespace", ELSEWHERE) == RuntimeChoice("namespace", "requested")
    with pytest.raises(EngineUnavailableError, match="which DOCKER_HOST names"):
        choose_runtime("docker", ELSEWHERE)
    with pytest.raises(UnsupportedError):
        choose_runtime("docker", {"DOCKER_HOST": "ssh://build.example.com"})


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of engines: a socket there answers with the version that its name begins with."""

    class Answering:
        def __init__(self, place: Path) -> None:
            self.version = place.name.partition("-")[2]
            if self.version == "dead":
                raise EngineUnavailableError(f"cannot connect to {place}", "")
            if self.version == "podman":
                raise UnsupportedError(f"Podman at {place}", "")

        def close(self) -> None:
            pass

    monkeypatch.setattr(engine, "DockerEngine", Answering)
    monkeypatch.setattr(
        runtime_choice,
        "engine_sockets",
        lambda _: tuple(EngineSocket(each) for each in sorted(tmp_path.iterdir())),
    )
    return tmp_path


def engines(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        os.mknod(folder / f"{number}-{name}", stat.S_IFSOCK | 0o600)


def test_the_first_engine_that_answers_is_taken(answering: Path) -> None:
    (answering / "0-a-file").write_text("")
    engines(answering, "dead", "27", "podman")
    right = answering / "1-27"
    assert choose_runtime(None, {}) == RuntimeChoice("docker", "engine 27 answers", engine=right)
    assert choose_runtime("runsc", {}).engine == right


def test_an_engine_that_cannot_run_sandboxes_is_said(answering: Path) -> None:
    engines(answering, "dead", "podman")
    assert choose_runtime(None, {}) == RuntimeChoice("namespace", f"Podman at {answering / '1-podman'}")
    with pytest.raises(UnsupportedError, match="Podman at"):
        choose_runtime("docker", {})


def test_a_fleet_is_imported_without_any_library_of_an_engine() -> None:
    code = "import sys, egress.fleet; print('docker' in sys.modules, 'mitmproxy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_kubernetes_is_never_a_runtime_of_the_engine() -> None:
    with pytest.raises(UnsupportedError, match="no sandboxes on Kubernetes"):
        choose_runtime("kubernetes", {})
