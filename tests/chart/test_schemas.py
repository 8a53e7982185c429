"""Every object of the chart is what Kubernetes 1.30 to 1.37 take, down to the last field."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Final

import jsonschema
import kubernetes_validate
import pytest
from referencing import Registry, Resource

from tests.chart.rendered_chart import EXAMPLES, VALUES, Json, objects, one, parsed

VERSIONS: Final = [f"1.{minor}" for minor in range(30, 38)]
SCHEMAS: Final = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
# Kinds that come with somebody else's definitions, which no release of Kubernetes has.
FOREIGN_GROUPS: Final = (
    "extensions.agents.x-k8s.io",
    "monitoring.coreos.com",
    "policy.networking.k8s.io",
)


@functools.cache
def registry(version: str) -> Registry[Json]:
    (folder,) = SCHEMAS.glob(f"v{version}.*-local-strict")
    definitions = json.loads((folder / "_definitions.json").read_text("utf-8"))
    made: Registry[Json] = Registry()
    found: Registry[Json] = made.with_resource(definitions["$id"], Resource.from_contents(definitions))
    return found


@functools.cache
def validator(version: str, kind: str, api_version: str) -> jsonschema.Draft202012Validator:
    (folder,) = SCHEMAS.glob(f"v{version}.*-local-strict")
    group, _, number = api_version.rpartition("/")
    name = "-".join(filter(None, (kind.lower(), group.partition(".")[0], number)))
    schema = json.loads((folder / f"{name}.json").read_text("utf-8"))
    resource = Resource.from_contents(schema)
    return jsonschema.Draft202012Validator(
        schema, registry=registry(version).with_resource(schema["$id"], resource)
    )


def check(version: str, found: list[Json]) -> None:
    """Raise for the first object that this version would not take."""
    for each in found:
        if not each["apiVersion"].startswith(FOREIGN_GROUPS):
            validator(version, each["kind"], each["apiVersion"]).validate(each)


COMPLETING: Final[Json] = {"admission": {"complete": True}}
NEWEST: Final = ("--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_takes_every_object(version: str) -> None:
    for values in VALUES.values():
        check(version, objects(values))
    for file in EXAMPLES:
        check(version, parsed(file.read_text("utf-8")))


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36", "1.37"])
def test_the_mutation_is_what_newer_versions_take(version: str) -> None:
    check(version, objects(COMPLETING))
    if version >= "1.36":
        check(version, objects(COMPLETING, *NEWEST))


def test_a_field_that_no_version_knows_is_found() -> None:
    found = objects()
    one(found, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]["limits"] = {}
    with pytest.raises(jsonschema.ValidationError, match="'limits' was unexpected"):
        check("1.34", found)
