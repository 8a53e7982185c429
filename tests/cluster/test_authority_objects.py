"""The authority of a gateway is made once, and what is there is never changed."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import override

import pytest

from egress.ca import keyfile, merged_bundle, new_authority_file
from egress.ca.authority import Authority
from egress.cluster.api_call import ApiRefusedError
from egress.cluster.api_server import ClusterApi
from egress.cluster.authority_objects import TrustTexts, keep_authority, keep_trust
from egress.errors import ContentError
from tests.cluster.fake_api_server import FakeApiServer, Json, running, whole

NOW = 1_795_000_000


@dataclass
class ObjectStore(FakeApiServer):
    """Objects that can be created and read, each once."""

    stored: dict[str, Json] = field(default_factory=dict)
    forbidden: str = ""

    @override
    async def _answer(self, head: str, target: str, writer: asyncio.StreamWriter) -> None:
        if self.forbidden and self.forbidden in target:
            writer.write(whole(403, {"reason": "Forbidden"}))
        elif head.startswith("POST"):
            value = json.loads(self.bodies[-1])
            path = f"{target}/{value['metadata']['name']}"
            is_new = path not in self.stored
            self.stored.setdefault(path, value)
            writer.write(whole(201, value) if is_new else whole(409, {"reason": "AlreadyExists"}))
        elif head.startswith("PATCH"):
            change = json.loads(self.bodies[-1])
            if change["metadata"]["resourceVersion"] != self.stored[target]["metadata"]["resourceVersion"]:
                writer.write(whole(409, {"reason": "Conflict"}))
            else:
                self.stored[target]["data"] |= change["data"]
                writer.write(whole(200, self.stored[target]))
        else:
            found = self.stored.get(target)
            writer.write(whole(404, {"reason": "NotFound"}) if found is None else whole(200, found))


SECRET = "/api/v1/namespaces/agents/secrets/egress-authority"
TRUST = "/api/v1/namespaces/agents/configmaps/egress-trust"


@pytest.fixture
def server() -> ObjectStore:
    return ObjectStore()


@pytest.fixture
async def api(server: ObjectStore, tmp_path: Path) -> AsyncIterator[ClusterApi]:
    async with running(tmp_path, server) as api:
        yield api


def new() -> bytes:
    return new_authority_file("gateway", NOW)


def texts_of(file: bytes) -> TrustTexts:
    pem = Authority("gateway", *keyfile.parse(file, "here", "")).certificate_pem
    return TrustTexts((pem.decode(),), merged_bundle(pem).decode())


async def test_the_first_job_makes_the_key_and_the_certificate(server: ObjectStore, api: ClusterApi) -> None:
    file, is_new = await asyncio.to_thread(keep_authority, api, new)
    assert is_new
    assert base64.b64decode(server.stored[SECRET]["data"]["authority.pem"]) == file
    assert await asyncio.to_thread(keep_trust, api, texts_of(file))
    trust = server.stored[TRUST]["data"]
    assert trust["ca.pem"] in trust["bundle.pem"]
    assert "PRIVATE KEY" not in json.dumps(server.stored[TRUST])
    assert b"PRIVATE KEY" in file


async def test_a_second_job_changes_nothing_and_uses_what_is_there(
    server: ObjectStore, api: ClusterApi
) -> None:
    first, _ = await asyncio.to_thread(keep_authority, api, new)
    await asyncio.to_thread(keep_trust, api, texts_of(first))
    before = json.dumps(server.stored)
    second, is_new = await asyncio.to_thread(keep_authority, api, new)
    assert (second, is_new) == (first, False)
    assert not await asyncio.to_thread(keep_trust, api, texts_of(second))
    assert json.dumps(server.stored) == before


async def test_jobs_at_the_same_time_agree(server: ObjectStore, api: ClusterApi) -> None:
    made = await asyncio.gather(*(asyncio.to_thread(keep_authority, api, new) for _ in range(4)))
    assert len({file for file, _ in made}) == 1
    assert sum(is_new for _, is_new in made) == 1


async def test_a_job_that_was_cut_short_is_finished_by_the_next(server: ObjectStore, api: ClusterApi) -> None:
    await asyncio.to_thread(keep_authority, api, new)
    file, _ = await asyncio.to_thread(keep_authority, api, new)
    assert await asyncio.to_thread(keep_trust, api, texts_of(file))


async def test_a_certificate_of_another_authority_is_refused_and_left(
    server: ObjectStore, api: ClusterApi
) -> None:
    await asyncio.to_thread(keep_trust, api, texts_of(new()))
    before = json.dumps(server.stored)
    file, _ = await asyncio.to_thread(keep_authority, api, new)
    with pytest.raises(ContentError, match="does not hold the certificate"):
        await asyncio.to_thread(keep_trust, api, texts_of(file))
    assert server.stored[TRUST] == json.loads(before)[TRUST]


@pytest.mark.parametrize("data", [None, {}, {"authority.pem": "no base64!"}, {"authority.pem": 5}])
async def test_a_secret_of_somebody_else_is_never_quoted(
    data: Json | None, server: ObjectStore, api: ClusterApi
) -> None:
    server.stored[SECRET] = {"kind": "Secret", "data": data}
    taken = asyncio.to_thread(keep_authority, api, new)
    if data == {"authority.pem": "no base64!"}:
        with pytest.raises(ContentError) as raised:
            await taken
        assert "no base64!" not in f"{raised.value.message}{raised.value.hint}"
    else:
        # Empty: for whoever reads the file as an authority.
        assert await taken == (b"", False)


async def test_an_authority_that_was_taken_out_is_renewed_and_the_key_of_the_log_stays(
    server: ObjectStore, api: ClusterApi
) -> None:
    first, _ = await asyncio.to_thread(keep_authority, api, new)
    secret = server.stored[SECRET]
    secret["metadata"]["resourceVersion"] = "7"
    log_key = secret["data"]["audit.key"]
    del secret["data"]["authority.pem"]
    second, is_new = await asyncio.to_thread(keep_authority, api, new)
    assert is_new
    assert second != first
    assert base64.b64decode(secret["data"]["authority.pem"]) == second
    assert secret["data"]["audit.key"] == log_key


async def test_without_the_right_nothing_is_made(server: ObjectStore, api: ClusterApi) -> None:
    server.forbidden = "secrets"
    with pytest.raises(ApiRefusedError, match="403"):
        await asyncio.to_thread(keep_authority, api, new)
    assert server.stored == {}
