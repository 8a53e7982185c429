"""What has to be as it was left before a container is taken over."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from egress.runtime.docker import labels, names
from egress.runtime.docker.kept_sandboxes import difference
from tests.unit.runtime.docker.test_kept_record import CELL, RECORD

LEASE = "/run/kept.lease"
CONTAINER: dict[str, Any] = {
    "Id": RECORD.container,
    "Name": "/" + names.started("one", CELL),
    "Image": RECORD.image,
    "Config": {"Labels": {**labels.owner_labels(labels.ROLE_SANDBOX, LEASE), "more": "x"}},
    "HostConfig": {"NetworkMode": RECORD.network},
    "NetworkSettings": {"Networks": {"egress-net": {"NetworkID": RECORD.network}}},
}
NETWORK: dict[str, Any] = {"Containers": {RECORD.container: {}}}


def test_a_container_that_nobody_touched_is_the_one_that_was_left() -> None:
    assert difference(CONTAINER, NETWORK, RECORD, LEASE) == ""
    # Stopped, it is in its network no more; not started for its sandbox, it has another name.
    stopped = {**CONTAINER, "Name": names.assigned("one", CELL)}
    assert difference(stopped, {"Containers": None}, RECORD, LEASE) == ""


CHANGES: list[tuple[str, Callable[[Any, Any], object]]] = [
    ("another container in its place", lambda box, _: box.update(Id="e" * 64)),
    ("renamed", lambda box, _: box.update(Name="/" + names.started("two", CELL))),
    ("renamed", lambda box, _: box.update(Name="/" + names.started("one", "76543210"))),
    ("renamed", lambda box, _: box.pop("Name")),
    ("other labels", lambda box, _: box["Config"]["Labels"].update({labels.LEASE_LABEL: "/other"})),
    ("other labels", lambda box, _: box["Config"]["Labels"].update({labels.ROLE_LABEL: "door"})),
    ("other labels", lambda box, _: box.update(Config=None)),
    ("another image", lambda box, _: box.update(Image="sha256:other")),
    ("another network", lambda box, _: box["HostConfig"].update(NetworkMode="host")),
    ("connected to another network", lambda box, _: box["NetworkSettings"]["Networks"].update(bridge={})),
    ("connected to another network", lambda box, _: box["NetworkSettings"]["Networks"].clear()),
    (
        "connected to another network",
        lambda box, _: box["NetworkSettings"]["Networks"].update(bridge={"NetworkID": "f" * 64}),
    ),
    ("another container was connected", lambda _, network: network["Containers"].update({"d" * 64: {}})),
]


@pytest.mark.parametrize(("reason", "change"), CHANGES, ids=range(len(CHANGES)))
def test_one_that_was_changed_is_another(reason: str, change: Callable[[Any, Any], object]) -> None:
    container, network = copy.deepcopy(CONTAINER), copy.deepcopy(NETWORK)
    change(container, network)
    assert reason in difference(container, network, RECORD, LEASE)
