"""Claims are answered as a cluster answers them: its statuses, its objects, its errors, and no more of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api_server.claim_lab import ClaimLab, claim_lab, manifest, ready_of
from tests.api_server.lab import api_lab

SECRET = "canary-Secret_0123456789"


@pytest.fixture
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClaimLab]:
    with claim_lab(tmp_path_factory.mktemp("claims")) as lab:
        yield lab


def name_selector(name: str) -> str:
    return f"fieldSelector=metadata.name%3D{name}"


def test_every_call_wants_the_token(lab: ClaimLab) -> None:
    name = lab.settled("mine")["status"]["sandbox"]["name"]
    for method, path in (
        ("POST", ""),
        ("GET", ""),
        ("GET", "?watch=1"),
        ("GET", "/mine"),
        ("DELETE", "/mine"),
    ):
        assert lab.ask(method, path, token="Bearer wrong")[0] == 401, (method, path)
    target = f"/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes/{name}"
    assert lab.call("GET", target, token="")[0] == 401
    assert lab.ask("GET", "/mine")[0] == 200


def test_the_socket_of_the_owner_has_no_claims() -> None:
    with api_lab() as owner:
        target = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default/sandboxclaims"
        assert owner.ask("GET", target).status == 404


def test_a_claim_is_created_then_ready_then_gone(lab: ClaimLab) -> None:
    claim = lab.create("mine", labels={"team": "a"})
    assert (claim["apiVersion"], claim["kind"]) == ("extensions.agents.x-k8s.io/v1beta1", "SandboxClaim")
    assert "status" not in claim
    version = claim["metadata"]["resourceVersion"]
    with lab.watching(f"{name_selector('mine')}&resourceVersion={version}&timeoutSeconds=30") as events:
        event = next(events)
        assert (event["type"], ready_of(event["object"])) == ("MODIFIED", ("True", "DependenciesReady"))
        name = event["object"]["status"]["sandbox"]["name"]
        assert name.startswith("mine-")
        assert lab.fleet.status(name).info.state == "running"
        status, box = lab.sandbox(name)
        assert (status, box["status"]["podIPs"], ready_of(box)[0]) == (200, ["192.0.2.1"], "True")
        assert lab.ask("DELETE", "/mine", {})[0] == 200
        assert [next(events)["type"] for _ in range(2)] == ["MODIFIED", "DELETED"]
    assert lab.ask("GET", "/mine")[0] == lab.sandbox(name)[0] == 404
    assert not lab.fleet.list()


def test_errors_have_the_form_that_clients_of_kubernetes_read(lab: ClaimLab) -> None:
    status, answer = lab.ask("GET", "/none")
    assert (status, answer) == (
        404,
        {
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "message": "sandboxclaims 'none' not found (list the claims)",
            "reason": "NotFound",
            "code": 404,
        },
    )


def test_a_second_claim_of_one_name_is_refused(lab: ClaimLab) -> None:
    lab.create("mine")
    status, answer = lab.ask("POST", "", manifest("mine"))
    assert (status, answer["reason"]) == (409, "AlreadyExists")
    assert lab.ask("POST", "", manifest("mine"), "other")[0] == 201


def test_claims_that_come_at_once_get_one_name_once(lab: ClaimLab) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(lab.ask("POST", "", manifest("mine"))[0]))
        for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(found) == [201, *[409] * 7]


def test_a_claim_is_deleted_by_its_uid_alone_where_one_is_named(lab: ClaimLab) -> None:
    claim = lab.settled("mine")
    status, answer = lab.ask("DELETE", "/mine", {"preconditions": {"uid": "another"}})
    assert (status, answer["reason"]) == (409, "Conflict")
    assert lab.ask("GET", "/mine")[0] == 200
    options = {"preconditions": {"uid": claim["metadata"]["uid"]}, "propagationPolicy": "Foreground"}
    assert lab.ask("DELETE", "/mine", options)[0] == 200


def test_lists_and_watches_have_what_is_selected(lab: ClaimLab) -> None:
    lab.settled("a", labels={"team": "a"})
    lab.settled("b", labels={"team": "b"})
    lab.settled("c", "other", labels={"team": "a"})

    def names(query: str) -> list[str]:
        status, found = lab.ask("GET", f"?{query}")
        assert (status, found["kind"]) == (200, "SandboxClaimList")
        return [each["metadata"]["name"] for each in found["items"]]

    assert names("") == ["a", "b"]
    assert names("labelSelector=team%3Da") == names(name_selector("a")) == ["a"]
    with lab.watching("labelSelector=team%20notin%20(b)&timeoutSeconds=0") as events:
        assert [each["object"]["metadata"]["name"] for each in events] == ["a"]


@pytest.mark.parametrize(
    "query",
    [
        "labelSelector=,",
        "labelSelector=a%3D%3D%3Db",
        "labelSelector=a%20in%20b",
        "fieldSelector=status.phase%3DReady",
        "fieldSelector=metadata.name%3Da%2Cmetadata.namespace%3Db",
        "timeoutSeconds=-1",
        "timeoutSeconds=x",
        "resourceVersion=x",
        "resourceVersion=-1",
        "limit=1",
        "watch=1&watch=0",
        "watch=maybe",
    ],
)
def test_a_query_that_cannot_be_kept_is_refused(lab: ClaimLab, query: str) -> None:
    status, answer = lab.ask("GET", f"?{query}")
    assert (status, answer["kind"], answer["reason"]) == (400, "Status", "BadRequest")
    for call in ("POST", "DELETE"):
        assert lab.ask(call, "/none?dryRun=All" if call == "DELETE" else "?dryRun=All", {})[0] == 400


def test_a_watch_ends_with_its_time(lab: ClaimLab, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab.watching("timeoutSeconds=1") as events:
        assert list(events) == []
    monkeypatch.setattr("egress.api_server.claim_routes.MAX_WATCH_SECONDS", 1)
    with lab.watching("timeoutSeconds=1000000") as events:
        assert list(events) == []


@pytest.mark.parametrize("version", ["1", "9999999999999999999"])
def test_a_version_of_another_time_is_gone(lab: ClaimLab, version: str) -> None:
    status, answer = lab.ask("GET", f"?watch=true&resourceVersion={version}")
    assert (status, answer["reason"], answer["code"]) == (410, "Expired", 410)


def test_a_watch_is_told_of_a_sandbox_that_went_by_itself(lab: ClaimLab) -> None:
    claim = lab.settled("mine")
    with lab.watching(f"{name_selector('mine')}&resourceVersion=0") as events:
        assert next(events)["type"] == "ADDED"
        lab.fleet.remove(claim["status"]["sandbox"]["name"])
        assert next(events)["type"] == "DELETED"
    assert lab.ask("GET", "/mine")[0] == 404


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"kind": "Sandbox"}, 400),
        ({"apiVersion": "extensions.agents.x-k8s.io/v1alpha1"}, 400),
        ({"status": {}}, 400),
        ({"metadata": {"generateName": "a"}}, 400),
        ({"metadata": {"name": "a", "ownerReferences": []}}, 400),
        ({"spec": {}}, 400),
        ({"spec": {"warmPoolRef": {"name": "python"}, "sandboxTemplateRef": {"name": "x"}}}, 400),
        ({"metadata": {"name": "Upper"}}, 422),
        ({"metadata": {"name": "../up"}}, 422),
        ({"metadata": {"name": ""}}, 422),
        ({"metadata": {"name": "a\n"}}, 422),
        ({"metadata": {"name": "a" * 254}}, 400),
        ({"metadata": {"name": "a", "namespace": "other"}}, 422),
        ({"metadata": {"name": "a", "labels": {"agents.x-k8s.io/claim": "x"}}}, 422),
        ({"metadata": {"name": "a", "labels": {"a": SECRET + " x"}}}, 422),
        ({"metadata": {"name": "a", "labels": {"a": SECRET * 3}}}, 422),
    ],
)
def test_an_object_that_a_cluster_would_not_store_is_refused(
    lab: ClaimLab, change: dict[str, Any], status: int
) -> None:
    found, answer = lab.ask("POST", "", {**manifest("mine"), **change})
    assert (found, answer["kind"]) == (status, "Status")
    assert SECRET not in str(answer)
    assert lab.ask("GET", "")[1]["items"] == []


@pytest.mark.parametrize("namespace", ["Upper", "a" * 64, "a.b", "-a", "a%20b"])
def test_a_namespace_of_another_form_is_refused(lab: ClaimLab, namespace: str) -> None:
    assert lab.ask("POST", "", manifest("mine"), namespace)[0] == 422


def test_a_manifest_is_bounded(lab: ClaimLab) -> None:
    large = manifest("mine", labels={f"label-{number}": "x" * 60 for number in range(600)})
    assert lab.ask("POST", "", large)[0] == 400
    assert lab.ask("POST", "", b"[" * 10_000)[0] == 400


def test_other_parts_of_the_api_of_a_cluster_are_not_there(lab: ClaimLab) -> None:
    lab.settled("mine")
    assert lab.ask("PATCH", "/mine", {})[0] == lab.ask("PUT", "/mine", {})[0] == 405
    for path in ("/api/v1/namespaces/default/pods", "/apis", "/apis/agents.x-k8s.io/v1beta1/sandboxes"):
        assert lab.call("GET", path)[0] == 404, path


def test_a_sandbox_of_another_namespace_or_client_is_not_found(lab: ClaimLab) -> None:
    name = lab.settled("mine", "team-a")["status"]["sandbox"]["name"]
    assert lab.sandbox(name)[0] == lab.sandbox(name, "team-b")[0] == lab.sandbox("..%2fx")[0] == 404
    assert lab.sandbox(name, "team-a")[0] == 200
