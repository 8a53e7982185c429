"""An authority is renewed in steps, each of which is refused while a pod would be cut off by it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import override

import pytest

from egress.cli.kubernetes.ca import _files
from egress.cluster.api_call import ApiRefusedError
from egress.cluster.api_server import ClusterApi
from egress.cluster.authority_objects import keep_authority, keep_trust
from egress.cluster.authority_renewal import MARGIN, Outcome, renew, retire
from egress.errors import ContentError
from tests.cluster.fake_api_server import FakeApiServer, Json, running, whole

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
FILES = _files("the Secret of the test")
SECRET = "/api/v1/namespaces/agents/secrets/egress-authority"
TRUST = "/api/v1/namespaces/agents/configmaps/egress-trust"


@dataclass
class Cluster(FakeApiServer):
    """Objects that are created, read and patched, and pods."""

    stored: dict[str, Json] = field(default_factory=dict)
    pods: list[Json] = field(default_factory=list)
    refused: str = ""
    """The end of a path that may not be changed."""

    @override
    async def _answer(self, head: str, target: str, writer: asyncio.StreamWriter) -> None:
        found = self.stored.get(target)
        if head.startswith("POST"):
            value = json.loads(self.bodies[-1])
            value["metadata"]["resourceVersion"] = "1"
            path = f"{target}/{value['metadata']['name']}"
            is_new = path not in self.stored
            self.stored.setdefault(path, value)
            writer.write(whole(201, value) if is_new else whole(409, {"reason": "AlreadyExists"}))
        elif head.startswith("PATCH"):
            assert found is not None
            writer.write(self._patched(target, found, json.loads(self.bodies[-1])))
        elif target.startswith("/api/v1/namespaces/agents/pods?"):
            start = int(target.rpartition("continue=")[2]) if "continue=" in target else 0
            more = {"continue": str(start + 1)} if start + 1 < len(self.pods) else {}
            writer.write(whole(200, {"metadata": more, "items": self.pods[start : start + 1]}))
        else:
            writer.write(whole(404, {"reason": "NotFound"}) if found is None else whole(200, found))

    def _patched(self, target: str, found: Json, change: Json) -> bytes:
        metadata = found["metadata"]
        if self.refused and target.endswith(self.refused):
            return whole(403, {"reason": "Forbidden"})
        if change["metadata"].pop("resourceVersion") != metadata["resourceVersion"]:
            return whole(409, {"reason": "Conflict"})
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        notes = {**metadata.get("annotations", {}), **change["metadata"].get("annotations", {})}
        metadata["annotations"] = {key: value for key, value in notes.items() if value is not None}
        found["data"] |= change.get("data", {})
        return whole(200, found)

    def file(self) -> bytes:
        return base64.b64decode(self.stored[SECRET]["data"]["authority.pem"])

    @property
    def counts(self) -> tuple[int, int, int]:
        """Authorities of the Secret; certificates of the ConfigMap, alone and beyond the public roots."""
        trust = self.stored[TRUST]["data"]
        count = trust["ca.pem"].count("BEGIN CERTIFICATE")
        own = [part for part in trust["ca.pem"].split("-----END CERTIFICATE-----") if part.strip()]
        return (
            self.file().count(b"BEGIN PRIVATE"),
            count,
            sum(part.strip() in trust["bundle.pem"] for part in own),
        )


def pod(name: str, created: datetime, *, phase: str = "Running", volume: Json | None = None) -> Json:
    mounted = {"name": "trust", "configMap": {"name": "egress-trust"}} if volume is None else volume
    return {
        "metadata": {"name": name, "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ")},
        "spec": {"volumes": [{"name": "tmp", "emptyDir": {}}, mounted]},
        "status": {"phase": phase},
    }


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def api(cluster: Cluster, tmp_path: Path) -> AsyncIterator[ClusterApi]:
    async with running(tmp_path, cluster) as api:
        file, _ = await asyncio.to_thread(keep_authority, api, FILES.make)
        await asyncio.to_thread(keep_trust, api, FILES.trust(FILES.split(file)))
        yield api


async def renewed(api: ClusterApi, at: datetime = NOW) -> Outcome:
    return await asyncio.to_thread(renew, api, FILES, at)


async def retired(api: ClusterApi, at: datetime) -> Outcome:
    return await asyncio.to_thread(retire, api, FILES, at)


async def test_a_renewal_from_its_first_step_to_its_last(cluster: Cluster, api: ClusterApi) -> None:
    [old] = FILES.split(cluster.file())
    log_key = cluster.stored[SECRET]["data"]["audit.key"]
    assert await renewed(api) == "renewed"
    first, new = FILES.split(cluster.file())
    # The older one is first: a release that knows of one authority signs with it.
    assert first == old
    assert cluster.counts == (2, 2, 2)
    # The job of an upgrade leaves it as it is.
    assert await asyncio.to_thread(keep_authority, api, FILES.make) == (old + new, False)
    assert not await asyncio.to_thread(keep_trust, api, FILES.trust((old, new)))
    later = NOW + timedelta(hours=1)
    assert await retired(api, later) == "retired"
    assert (cluster.file(), cluster.counts) == (new, (1, 2, 2))
    with pytest.raises(ContentError, match="may still sign with the old"):
        await retired(api, later + MARGIN - timedelta(seconds=1))
    with pytest.raises(ContentError, match="not finished"):
        await renewed(api)
    assert await retired(api, later + MARGIN) == "removed"
    assert cluster.counts == (1, 1, 1)
    assert cluster.stored[TRUST]["metadata"]["annotations"] == {}
    assert cluster.stored[SECRET]["data"]["audit.key"] == log_key
    assert "PRIVATE KEY" not in json.dumps(cluster.stored[TRUST])
    with pytest.raises(ContentError, match="nothing to retire"):
        await retired(api, later + 2 * MARGIN)


async def test_no_authority_leaves_before_the_pods_that_trust_it_alone(
    cluster: Cluster, api: ClusterApi
) -> None:
    await renewed(api)
    projected = {"name": "t", "projected": {"sources": [{"configMap": {"name": "egress-trust"}}]}}
    other = {"name": "t", "configMap": {"name": "egress-rules"}}
    before, after = NOW + MARGIN - timedelta(seconds=1), NOW + MARGIN
    cluster.pods = [
        pod("without", NOW, volume=other),
        pod("over", NOW, phase="Succeeded"),
        pod("new", after),
        pod("old", before),
        pod("old-too", NOW - timedelta(days=30), volume=projected),
    ]
    with pytest.raises(ContentError, match=r"2 pods from before .* alone: old, old-too\nhint"):
        await retired(api, NOW + timedelta(days=1))
    assert cluster.counts == (2, 2, 2)
    del cluster.pods[3:]
    assert await retired(api, NOW + timedelta(days=1)) == "retired"


async def test_a_renewal_that_was_cut_short_is_finished_by_the_same_command(
    cluster: Cluster, api: ClusterApi
) -> None:
    cluster.refused = "egress-trust"
    with pytest.raises(ApiRefusedError):
        await renewed(api)
    assert cluster.counts == (2, 1, 1)
    held = FILES.split(cluster.file())
    with pytest.raises(ContentError, match="do not trust the new authority yet"):
        await retired(api, NOW + timedelta(days=1))
    with pytest.raises(ContentError, match="does not hold the certificate"):
        await asyncio.to_thread(keep_trust, api, FILES.trust(held))
    cluster.refused = ""
    assert await renewed(api) == "completed"
    assert (FILES.split(cluster.file()), cluster.counts) == (held, (2, 2, 2))
    with pytest.raises(ContentError, match="under way"):
        await renewed(api)


async def test_an_end_that_was_cut_short_is_finished_by_the_same_command(
    cluster: Cluster, api: ClusterApi
) -> None:
    await renewed(api)
    cluster.refused = "egress-trust"
    with pytest.raises(ApiRefusedError):
        await retired(api, NOW + timedelta(days=1))
    assert cluster.counts == (1, 2, 2)
    cluster.refused = ""
    # Nobody knows when the gateway got the new file, so its time begins now.
    later = NOW + timedelta(days=2)
    assert await retired(api, later) == "retired"
    with pytest.raises(ContentError, match="may still sign with the old authority"):
        await retired(api, later)
    assert await retired(api, later + MARGIN) == "removed"
    assert cluster.counts == (1, 1, 1)


async def test_of_two_renewals_at_a_time_one_wins(cluster: Cluster, api: ClusterApi) -> None:
    results = await asyncio.gather(renewed(api), renewed(api), return_exceptions=True)
    refusals = [each for each in results if isinstance(each, BaseException)]
    assert len(refusals) <= 1
    assert all(isinstance(each, (ApiRefusedError, ContentError)) for each in refusals)
    assert cluster.counts[0] == 2


async def test_a_renewal_without_its_time_is_not_retired(cluster: Cluster, api: ClusterApi) -> None:
    await renewed(api)
    cluster.stored[TRUST]["metadata"]["annotations"] = {"egress/renewed": "yesterday"}
    with pytest.raises(ContentError, match="does not say when"):
        await retired(api, NOW + timedelta(days=1))
    assert cluster.counts == (2, 2, 2)
