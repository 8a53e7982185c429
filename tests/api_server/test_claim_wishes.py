"""A claim gets what its pool allows; any other wish is a reason that agent-sandbox's client knows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from egress.api.schema import SandboxSettings
from egress.api_server.claim_schema import Claim, ClaimManifest, ObjectMetadata
from egress.api_server.claim_wishes import IDLE_SECONDS, UnreadyClaimError, check_manifest, claim_settings
from egress.runtime.errors import SpecError
from tests.api_server.claim_lab import POOLS, manifest

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECRET = "canary-Secret_0123456789"


def manifest_of(**spec: object) -> ClaimManifest:
    return msgspec.json.decode(msgspec.json.encode(manifest("mine", None, **spec)), type=ClaimManifest)


def settings_of(**spec: object) -> SandboxSettings:
    asked = manifest_of(**spec)
    metadata = ObjectMetadata(
        name="mine",
        namespace="default",
        uid="u",
        resource_version="1",
        creation_timestamp="",
        labels=asked.metadata.labels,
    )
    claim = Claim(api_version="v1", kind="SandboxClaim", metadata=metadata, spec=asked.spec)
    return claim_settings(claim, asked.spec, POOLS, NOW)


def annotated(**annotations: str) -> dict[str, Any]:
    return {"annotations": {name.replace("_", "/"): value for name, value in annotations.items()}}


def test_a_claim_has_the_settings_of_its_pool() -> None:
    settings = settings_of()
    assert (settings.profile, settings.limits.memory_mib, settings.image) == ("reader", 64, None)
    assert (settings.owner, settings.timeout, settings.idle_timeout) == ("agent-sandbox", None, IDLE_SECONDS)


@pytest.mark.parametrize("profile", ["reader", "reviewer"])
def test_a_claim_may_name_a_profile_of_its_pool(profile: str) -> None:
    settings = settings_of(additionalPodMetadata=annotated(egress_profile=profile, other_note="kept"))
    assert settings.profile == profile


def test_a_claim_brings_values_for_parameters_of_the_rules() -> None:
    """Their patterns are those of the rules, which the proxy checks when the sandbox is made."""
    asked = {"annotations": {"egress/param.repo": "acme/site", "egress/param.env": "test"}}
    assert settings_of(additionalPodMetadata=asked).params == {"repo": "acme/site", "env": "test"}
    assert settings_of().params == {}


def test_a_claim_ends_at_its_time() -> None:
    end = (NOW + timedelta(seconds=90)).isoformat()
    assert settings_of(lifecycle={"shutdownTime": end, "shutdownPolicy": "Delete"}).timeout == 90


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"warmPoolRef": {"name": "other"}}, "WarmPoolNotFound"),
        ({"env": [{"name": "A", "value": SECRET}]}, "EnvVarsInjectionRejected"),
        ({"volumeClaimTemplates": [{"metadata": {"name": SECRET}}]}, "VolumeClaimTemplatesError"),
        ({"additionalPodMetadata": annotated(egress_profile="author")}, "InvalidMetadata"),
        ({"additionalPodMetadata": annotated(egress_profile="")}, "InvalidMetadata"),
        ({"additionalPodMetadata": annotated(egress_profile="Reviewer")}, "InvalidMetadata"),
        ({"additionalPodMetadata": {"annotations": {"egress/profile-max": "author"}}}, "InvalidMetadata"),
        ({"additionalPodMetadata": {"annotations": {"egress/param.repo": f"{SECRET}\n"}}}, "InvalidMetadata"),
        ({"additionalPodMetadata": {"annotations": {"egress/params": SECRET}}}, "InvalidMetadata"),
        (
            {"lifecycle": {"shutdownTime": "2029-12-31T23:59:59Z", "shutdownPolicy": "Delete"}},
            "ClaimExpired",
        ),
    ],
)
def test_a_wish_that_is_not_met_is_a_reason(spec: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnreadyClaimError) as found:
        settings_of(**spec)
    assert found.value.reason == reason
    assert SECRET not in found.value.message


@pytest.mark.parametrize(
    "spec",
    [
        {"lifecycle": {"shutdownTime": "2040-01-01T00:00:00Z"}},
        {"lifecycle": {"shutdownTime": "2040-01-01T00:00:00Z", "shutdownPolicy": "Retain"}},
        {"lifecycle": {}},
        {"additionalPodMetadata": {"labels": {"egress/x": "a"}}},
        {"additionalPodMetadata": {"labels": {"a b": "a"}}},
    ],
)
def test_an_object_that_cannot_be_kept_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        check_manifest("default", manifest_of(**spec))
    check_manifest("default", manifest_of())
