"""An id stands for one sandbox of its own: gone ones come back, and those of others are not found."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from egress.api_server.bridge_sandboxes import IDLE_SECONDS, OWNER, random_id, sandbox_name
from egress.fleet.lifetime import SandboxLifetime
from egress.runtime.errors import SandboxNotFoundError
from egress.runtime.spec import NAME_PATTERN
from tests.api_server.bridge_lab import RIGHT, BridgeLab
from tests.api_server.port_lab import PortLab, port_lab
from tests.fleet.memory_fleet import spec

EXEC = {"argv": ["true"]}


@pytest.fixture
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PortLab]:
    with port_lab(tmp_path_factory.mktemp("port")) as lab:
        yield lab


@pytest.fixture
def bridge(port: PortLab) -> BridgeLab:
    return BridgeLab(port)


def test_ids_differ_and_are_names_of_sandboxes() -> None:
    found = {random_id() for _ in range(100)}
    assert len(found) == 100
    assert all(NAME_PATTERN.fullmatch(sandbox_name(each)) for each in found)


@pytest.mark.parametrize("found", ["", "one", "A" * 26, "1" * 26, f"{'a' * 26}/", f"{'a' * 26}\n", "a" * 27])
def test_an_id_of_another_form_is_not_found(found: str) -> None:
    with pytest.raises(SandboxNotFoundError):
        sandbox_name(found)


def test_an_id_of_another_form_creates_nothing(port: PortLab, bridge: BridgeLab) -> None:
    port.running("one")
    for other in ("one", bridge.name, "a" * 25):
        for method, path in (("GET", "/running"), ("DELETE", ""), ("POST", "/exec")):
            status, answer = bridge.ask(method, f"/{other}{path}", EXEC if method == "POST" else None)
            assert (status, answer["code"]) == (404, "sandbox.not_found"), (other, path)
    assert {each.name for each in port.estate.fleet.list()} == {"one", bridge.name}


def test_a_sandbox_that_others_created_under_the_name_of_an_id_is_not_found(port: PortLab) -> None:
    bridge_id = random_id()
    fleet = port.estate.fleet
    fleet.create(spec(sandbox_name(bridge_id)), SandboxLifetime(owner="somebody"))
    fleet.start(sandbox_name(bridge_id))
    bridge = BridgeLab(port)
    for method, path in (("GET", "/running"), ("DELETE", ""), ("POST", "/exec")):
        status, answer = bridge.ask(method, f"/{bridge_id}{path}", EXEC if method == "POST" else None)
        assert (status, answer["code"]) == (404, "sandbox.not_found")
    assert fleet.status(sandbox_name(bridge_id)).info.state == "running"


def test_a_client_of_the_api_does_not_get_a_sandbox_of_the_bridge_by_its_name(bridge: BridgeLab) -> None:
    status, answer = bridge.port.ask("PUT", f"/v1/sandboxes/{bridge.name}", {}, Authorization=RIGHT)
    assert (status, answer["type"]) == (409, "sandbox.exists")


def test_a_deleted_sandbox_is_not_running_and_comes_back_with_its_next_command(bridge: BridgeLab) -> None:
    assert bridge.about("GET", "/running") == (200, {"running": True})
    assert bridge.about("DELETE", "") == (204, None)
    assert bridge.about("DELETE", "") == (204, None)
    assert bridge.about("GET", "/running") == (200, {"running": False})
    assert not bridge.is_there()
    assert "exit_code" in bridge.run("true")
    assert bridge.about("GET", "/running") == (200, {"running": True})


def test_many_commands_bring_one_sandbox_back(bridge: BridgeLab) -> None:
    bridge.about("DELETE", "")
    threads = [threading.Thread(target=bridge.run, args=("true",)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert bridge.is_there()


def test_one_that_ended_is_started_and_one_that_sleeps_counts_as_running(bridge: BridgeLab) -> None:
    fleet = bridge.port.estate.fleet
    fleet.stop(bridge.name)
    assert bridge.about("GET", "/running") == (200, {"running": False})
    assert "exit_code" in bridge.run("true")
    fleet.sleep(bridge.name)
    assert bridge.about("GET", "/running") == (200, {"running": True})
    assert "exit_code" in bridge.run("true")


def test_the_profile_is_that_of_the_url(port: PortLab) -> None:
    bridge = BridgeLab(port, "/profiles/reviewer")
    assert port.estate.fleet.status(bridge.name).info.profile == "reviewer"
    assert "exit_code" in bridge.run("true")
    status, answer = port.ask("POST", f"/v1/sandbox/{bridge.id}/exec", EXEC, Authorization=RIGHT)
    assert (status, answer["code"]) == (409, "sandbox.differs")


def test_a_sandbox_that_nobody_uses_is_removed_after_a_day(bridge: BridgeLab) -> None:
    estate = bridge.port.estate
    assert estate.fleet.status(bridge.name).terms.owner == OWNER
    estate.clock.now += IDLE_SECONDS - 1
    assert estate.fleet.remove_expired() == ()
    estate.clock.now += 2
    assert estate.fleet.remove_expired() == (bridge.name,)
