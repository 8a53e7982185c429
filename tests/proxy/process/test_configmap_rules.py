"""The rules of a ConfigMap: in force at once, and the last sound ones whatever happens to it."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from egress.cluster.api_server import ClusterApi
from egress.errors import ContentError, UnreadableError, UsageError
from egress.kubernetes.named_object import NamedObject, NamedObjectMeta
from egress.proxy.process.configmap_rules import MAX_RULES_BYTES, ConfigMapRules, configmap_rules
from egress.proxy.settings import read
from tests.cluster.fake_api_server import running
from tests.cluster.fake_object_server import FakeObjectServer
from tests.cluster.fake_object_server import until as holds
from tests.proxy.pod_proxy import PodProxy

FIRST = "version: 1\nhosts: {a.example.com: {}}\n"
SECOND = "version: 1\nhosts: {b.example.com: {}}\n"
UNSOUND = "version: 1\nhosts: {c.example.com: {alow: all}}\n"
MAP = ("configmaps", "rules")


@asynccontextmanager
async def proxy(folder: Path, server: FakeObjectServer) -> AsyncIterator[PodProxy]:
    account = folder / "account"
    account.mkdir()
    async with running(account, server) as api:
        served = PodProxy(folder, api, ["--rules-configmap", "rules", "--denied-tls", "refuse"])
        await asyncio.to_thread(served.start)
        try:
            yield served
        finally:
            await asyncio.to_thread(served.kill)
            shutil.rmtree(served.runtime)


async def state(served: PodProxy) -> dict[str, object]:
    return (await asyncio.to_thread(served.ask, "GET", "/status"))[1]


async def connects(served: PodProxy, name: str) -> int:
    """The status of the answer to a CONNECT."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(f"CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n".encode())
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


async def test_rules_come_late_change_fast_and_stay_through_every_fault(tmp_path: Path) -> None:
    server = FakeObjectServer()
    async with proxy(tmp_path, server) as served:
        # No ConfigMap: it serves, is not ready, and denies everything.
        found = await state(served)
        assert found["ready"] is False
        assert found["problems"] == ["no rules are in force, so everything is denied"]
        assert await asyncio.to_thread(served.ask, "GET", "/readyz") == (
            503,
            {"ready": False, "problems": found["problems"]},
        )
        assert await connects(served, "a.example.com") == 403

        async def in_force(text: str, reason: str) -> str:
            """Write a version, and return the digest that is in force once an Event has told of it."""
            told = len(server.events)
            begun = time.monotonic()
            server.set(*MAP, {"hosts.yaml": text})
            await holds(lambda: len(server.events) > told, reason)
            # Generous here, because machines are loaded; it is a matter of milliseconds.
            assert time.monotonic() - begun < 10
            assert server.events[-1]["reason"] == reason
            return str((await state(served))["rules"]["digest"])  # type: ignore[index]

        first = await in_force(FIRST, "RulesLoaded")
        assert (await state(served))["ready"] is True
        assert [await connects(served, f"{name}.example.com") for name in "ab"] == [200, 403]
        assert first[:12] in server.events[-1]["message"]
        assert server.events[-1]["involvedObject"]["name"] == "rules"
        assert server.events[-1]["reportingInstance"] == "egress-proxy-0"

        # Unsound: refused with its mistake, and the last sound ones stay.
        assert await in_force(UNSOUND, "RulesRefused") == first
        assert "unknown key `alow`" in server.events[-1]["message"]
        assert "unknown key `alow`" in str((await state(served))["rules"])
        assert await in_force("version: 1\n", "RulesRefused") == first

        # Nobody watches: the rules stay, and what was changed meanwhile comes with the next watch.
        server.status = 500
        server.cut()
        await holds(lambda: served.logged("rules.unwatched"))
        assert (await state(served))["ready"] is True
        server.set(*MAP, {"hosts.yaml": SECOND})
        server.status = 200
        await holds(lambda: server.events[-1]["reason"] == "RulesLoaded", "the second rules")
        second = (await state(served))["rules"]["digest"]  # type: ignore[index]
        assert second != first

        # Deleted: the last rules stay.
        server.delete(*MAP)
        await holds(lambda: served.logged("rules.refused")[-1]["problem"] == "configmap/rules does not exist")
        found = await state(served)
        assert (found["ready"], found["rules"]["digest"]) == (True, second)  # type: ignore[index]
        assert [await connects(served, f"{name}.example.com") for name in "ab"] == [403, 200]

        # The same rules again, in an object of the same name.
        server.event_status = 403
        server.set(*MAP, {"hosts.yaml": FIRST})
        await holds(lambda: served.logged("event.unwritten"), "an Event that may not be written")
        assert (await state(served))["rules"]["digest"] == first  # type: ignore[index]
        records = await asyncio.to_thread(served.recorded, "reloaded", 3)
        refused = served.records("reload.refused")
    assert [each["policy"] for each in records] == [first, second, first]
    assert {each["files"] for each in records} == {"configmap/rules/hosts.yaml"}
    assert [each["policy_before"] for each in records] == ["", first, second]
    assert refused[0]["policy"] == ""
    assert {each.get("file") for each in refused} == {None, "configmap/rules/hosts.yaml"}


# What a version has to be ------------------------------------------------------------------------------


API = ClusterApi("127.0.0.1", 1, "agents", Path("ca"), Path("token"))


def config(data: dict[str, str] | None, binary: dict[str, str] | None = None) -> ConfigMapRules:
    found = NamedObject(NamedObjectMeta("rules", "agents", "u", "1"), data, binary)
    return replace(configmap_rules(API, "rules", "egress-proxy-0"), found=found)


def test_a_version_is_the_text_of_one_rule_file() -> None:
    loaded = config({"hosts.yaml": FIRST}).read(0)
    assert loaded.policy is not None
    (finding,) = config({"hosts.yaml": UNSOUND}).read(0).findings
    assert str(finding.place) == "configmap/rules/hosts.yaml:2:25"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (config(None), "has no key hosts.yaml"),
        (config({}), "has no key hosts.yaml"),
        (config({"rules.yaml": FIRST}), "has no key hosts.yaml"),
        (config(None, {"hosts.yaml": "dmVyc2lvbjogMQo="}), "has no key hosts.yaml"),
        (config({"hosts.yaml": FIRST, "more.yaml": SECOND}), "1 more than the key"),
        (config({"hosts.yaml": FIRST}, {"logo": "AA=="}), "1 more than the key"),
        (config({"hosts.yaml": "#" * (MAX_RULES_BYTES + 1)}), "more than 1 MiB"),
        (config({"hosts.yaml": "é" * (MAX_RULES_BYTES // 2 + 1)}), "more than 1 MiB"),
    ],
)
def test_a_version_that_is_anything_else_is_refused(found: ConfigMapRules, said: str) -> None:
    with pytest.raises(ContentError, match=said):
        found.read(0)


def test_the_largest_version_is_read() -> None:
    text = FIRST + "#" * (MAX_RULES_BYTES - len(FIRST))
    assert config({"hosts.yaml": text}).read(0).policy is not None


def test_no_version_is_no_rules() -> None:
    with pytest.raises(UnreadableError, match="was not read yet"):
        configmap_rules(API, "rules", "egress-proxy-0").read(0)


# Settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rules": "hosts.yaml"}, "two sets of rules"),
        ({"ca_constrain": True}, "needs the rules at the start"),
    ],
)
def test_settings_that_do_not_go_with_a_configmap(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read({"rules_configmap": "rules", **given})
    assert read({"rules_configmap": "rules"}).values.rules_configmap == "rules"
