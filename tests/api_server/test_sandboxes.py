"""Sandboxes over the API, as a client in any language sees them."""

from __future__ import annotations

import pytest

from egress.fleet.protocol import FleetInfo
from tests.api_server.lab import ApiLab

SETTINGS = {"image": "any", "labels": {"team": "a"}, "timeout": 60}


def test_the_same_call_creates_a_sandbox_and_finds_it_again(lab: ApiLab) -> None:
    made = lab.ask("PUT", "/v1/sandboxes/one", SETTINGS)
    again = lab.ask("PUT", "/v1/sandboxes/one", SETTINGS)
    assert (made.status, made.body["state"], made.body["left"]) == (200, "running", 60.0)
    assert again.body["created"] == made.body["created"]
    assert [info.name for info in lab.estate.fleet.list()] == ["one"]


def test_another_setting_for_the_same_name_is_a_conflict_that_names_it(lab: ApiLab) -> None:
    lab.ask("PUT", "/v1/sandboxes/one", SETTINGS)
    answer = lab.ask("PUT", "/v1/sandboxes/one", {**SETTINGS, "timeout": 61})
    assert (answer.status, answer.body["type"]) == (409, "sandbox.differs")
    assert "timeout" in answer.body["message"]


def test_a_sandbox_without_a_name_gets_one(lab: ApiLab) -> None:
    one, two = (lab.ask("POST", "/v1/sandboxes", {"image": "any"}) for _ in range(2))
    assert one.status == two.status == 201
    assert one.body["name"] != two.body["name"]


def test_sandboxes_are_listed_by_their_labels(lab: ApiLab) -> None:
    lab.ask("PUT", "/v1/sandboxes/one", SETTINGS)
    lab.ask("PUT", "/v1/sandboxes/two", {"image": "any"})
    found = lab.ask("GET", "/v1/sandboxes?label=team=a").body["sandboxes"]
    assert [each["name"] for each in found] == ["one"]
    assert len(lab.ask("GET", "/v1/sandboxes").body["sandboxes"]) == 2


def test_a_sandbox_is_stopped_started_paused_and_removed(lab: ApiLab) -> None:
    lab.ask("PUT", "/v1/sandboxes/one", SETTINGS)
    for verb, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        assert lab.ask("POST", f"/v1/sandboxes/one/{verb}").status == 204
        assert lab.ask("GET", "/v1/sandboxes/one").body["state"] == state
    assert lab.ask("POST", "/v1/sandboxes/one/start").body["state"] == "running"
    assert lab.ask("DELETE", "/v1/sandboxes/one").status == 204
    assert lab.ask("GET", "/v1/sandboxes/one").status == 404
    assert lab.ask("DELETE", "/v1/sandboxes/one").status == 204


def test_impossible_settings_say_why(lab: ApiLab) -> None:
    answer = lab.ask("PUT", "/v1/sandboxes/Not%20A%20Name", {"image": "any"})
    assert (answer.status, answer.body["type"]) == (422, "spec.invalid")
    answer = lab.ask("PUT", "/v1/sandboxes/one", {"image": "any", "limits": {"cpus": 0}})
    assert (answer.status, answer.body["message"]) == (422, "limits.cpus is out of range")


def test_an_image_that_is_left_out_is_the_one_of_the_server(lab: ApiLab) -> None:
    lab.estate.fleet.about = FleetInfo(kind="docker", image="any")
    assert lab.ask("PUT", "/v1/sandboxes/one", {}).body["image"] == "any"


def test_the_owner_is_told_about_the_server_and_may_end_it(lab: ApiLab) -> None:
    assert lab.ask("GET", "/v1/about").body["kind"] == "fake"
    assert lab.ask("POST", "/v1/shutdown").status == 204
    assert lab.asked_to_end == [True]


def test_a_port_is_exposed_listed_and_withdrawn(lab: ApiLab) -> None:
    lab.running()
    made = lab.ask("PUT", "/v1/sandboxes/one/previews/8000").body
    assert made["url"] == f"{made['origin']}/?token={made['token']}"
    assert made["left"] is None
    longer = lab.ask("PUT", "/v1/sandboxes/one/previews/8000", {"expires": 60}).body
    assert longer == {**made, "left": 60}
    assert lab.ask("PUT", "/v1/sandboxes/one/previews/8000", {"expires": 0}).status == 422
    made = longer
    assert lab.ask("GET", "/v1/previews").body == {"previews": [made]}
    assert lab.ask("DELETE", "/v1/sandboxes/one/previews/8000").status == 204
    assert lab.ask("GET", "/v1/previews").body == {"previews": []}


def test_a_port_that_is_no_number_is_refused(lab: ApiLab) -> None:
    lab.running()
    for port in ("0", "65536", "x", "-1", "%EF%BC%91", "99999999999999999999"):
        assert lab.ask("PUT", f"/v1/sandboxes/one/previews/{port}").status == 422, port


def test_time_limits_are_changed_and_the_first_settings_still_find_it(lab: ApiLab) -> None:
    lab.ask("PUT", "/v1/sandboxes/one", SETTINGS)
    lab.estate.clock.now += 50
    changed = lab.ask("PATCH", "/v1/sandboxes/one", {"timeout": 600})
    assert (changed.status, changed.body["left"], changed.body["idle_timeout"]) == (200, 600, None)
    lab.estate.clock.now += 30
    assert lab.estate.fleet.remove_expired() == ()
    assert lab.ask("PUT", "/v1/sandboxes/one", SETTINGS).body["left"] == 570
    assert lab.ask("PATCH", "/v1/sandboxes/one", {"idle_timeout": 5}).body["left"] == 570
    assert lab.ask("PATCH", "/v1/sandboxes/one", {"timeout": None}).body["left"] is None
    lab.estate.clock.now += 6
    assert lab.estate.fleet.remove_expired() == ("one",)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"timeout": 0}, "spec.invalid"),
        ({"timeout": "1h"}, "request.invalid"),
        ({"labels": {"a": "b"}}, "request.invalid"),
        ({"owner": "me"}, "request.invalid"),
    ],
    ids=str,
)
def test_nothing_else_of_a_sandbox_is_changed(lab: ApiLab, body: object, kind: str) -> None:
    lab.ask("PUT", "/v1/sandboxes/one", SETTINGS)
    assert lab.ask("PATCH", "/v1/sandboxes/one", body).body["type"] == kind
    assert lab.ask("PATCH", "/v1/sandboxes/none", {"timeout": 5}).body["type"] == "sandbox.not_found"
    assert lab.ask("GET", "/v1/sandboxes/one").body["left"] == 60
