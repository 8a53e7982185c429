"""C23, C30, C32: the rights that a claim asks for, secrets that change, and where a secret is found."""

from __future__ import annotations

import base64
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.agent_sandbox.controller import AgentSandbox, define
from tests.cluster.agent_sandbox.running_controller import DEFINITIONS
from tests.cluster.container_processes import container_processes
from tests.cluster.installed_chart import InstalledChart, installed, trusting_upstreams
from tests.cluster.running_cluster import Json, RunningCluster, wait
from tests.cluster.stand_ins import Internet, policy_engine
from tests.cluster.warm_pool import WarmPool

pytestmark = [pytest.mark.timeout(1800), pytest.mark.nightly]

RULES = """\
version: 1
secrets:
  mounted: { from: "file:/run/secrets/egress/token", hosts: [api.github.com] }
  watched: { from: "k8s:live/token", hosts: [one.example.com] }
profiles:
  default: { hosts: [] }
  reader: { hosts: [api.github.com] }
  tracker: { hosts: [one.example.com] }
hosts:
  api.github.com:
    allow: [{ id: read, methods: [GET] }]
    inject: [{ bearer: mounted }]
  one.example.com:
    allow: [{ id: read, methods: [GET] }]
    inject: [{ bearer: watched }]
"""
BEARER = re.compile(r"^authorization: bearer (\S+)\r$", re.IGNORECASE | re.MULTILINE)
PROFILE = "egress/profile"


@pytest.fixture(scope="module")
def standing_rights(
    running: RunningCluster | None, outside: Internet | None, images_of_the_product: None
) -> Iterator[InstalledChart | None]:
    if running is None or outside is None:
        yield None
        return
    define(running, str(DEFINITIONS))
    values = trusting_upstreams(RULES) | {"secrets": {"readable": ["live"]}}
    chart = InstalledChart(running, values=values)
    with policy_engine(running), installed(chart, outside.authority):
        secret = {"metadata": {"name": "live"}, "stringData": {"token": new_secret()}}
        running.api.create(chart.path("secrets"), secret)
        yield chart


@pytest.fixture
def rights(cluster: RunningCluster, standing_rights: InstalledChart | None) -> Iterator[InstalledChart]:
    assert standing_rights is not None
    with standing_rights.kept_as_it_is():
        yield standing_rights


@pytest.fixture
def claims(rights: InstalledChart) -> Iterator[AgentSandbox]:
    found = AgentSandbox(rights.cluster, rights.namespace)
    yield found
    found.remove_all()


def new_secret() -> str:
    return f"canary-{secrets.token_hex(20)}"


def test_two_claims_of_one_pool_have_the_rights_that_each_asks_for(
    rights: InstalledChart, claims: AgentSandbox
) -> None:
    """C30: by profile; one that is unknown, and one above the ceiling, have none."""
    pool = WarmPool(claims, rights, "shared", annotations={"egress/profile-max": "default, reader"})
    wanted = {
        "reader": (200, ""),
        "default": (403, "profile.excluded"),
        "tracker": (403, "profile.ceiling"),
        "admin": (403, "profile.unknown"),
    }
    members = {profile: pool.member() for profile in wanted}
    for profile, member in members.items():
        claims.adopt(claims.claim(f"as-{profile}", pool.pool, {PROFILE: profile}), member)
    for profile, (status, code) in wanted.items():
        rights.until_answered(members[profile]["metadata"]["name"], status, code)
    # Once it is claimed, nobody was ever answered as another profile is.
    for profile, member in members.items():
        answers = rights.answers(member["metadata"]["name"])
        found = {(each.status, each.code) for each in answers if each.status not in {0, 503}}
        assert found == {wanted[profile]}, profile


def test_a_profile_that_the_template_pins_is_that_of_claims_without_one(
    rights: InstalledChart, claims: AgentSandbox
) -> None:
    """C30."""
    annotations = {PROFILE: "reader", "egress/profile-max": "reader"}
    pool = WarmPool(claims, rights, "pinned", annotations=annotations)
    plain, asking = pool.member(), pool.member()
    claims.adopt(claims.claim("plain", pool.pool), plain)
    claims.adopt(claims.claim("asking", pool.pool, {PROFILE: "default"}), asking)
    rights.until_answered(plain["metadata"]["name"], 200)
    rights.until_answered(asking["metadata"]["name"], 403, "profile.ceiling")


@pytest.mark.parametrize(
    ("name", "host", "profile"),
    [("live", "one.example.com", "tracker"), ("egress-token", "api.github.com", "reader")],
    ids=["watched", "mounted"],
)
def test_a_secret_that_changes_is_used_without_a_restart_and_the_old_one_never_again(
    rights: InstalledChart, canary: Internet, name: str, host: str, profile: str
) -> None:
    """C32."""
    rights.start_asking("asking", host, profile)
    rights.until_answered("asking", 200)
    restarts = gateway_processes(rights)
    mark, value = canary.mark(), new_secret()
    change = {"data": {"token": base64.b64encode(value.encode()).decode()}}
    changed = time.monotonic()
    rights.cluster.api.patch(rights.path(f"secrets/{name}"), change)
    wait(lambda: value in bearers(canary, mark), lambda: "the new value is not used", 180)
    took = time.monotonic() - changed
    sent = bearers(canary, mark)
    later = sent[sent.index(value) :]
    wait(lambda: len(bearers(canary, mark)) > len(sent) + 10, lambda: "it asks no more")
    later = bearers(canary, mark)[sent.index(value) :]
    assert set(later) == {value}, "an old value came after the new one"
    assert gateway_processes(rights) == restarts
    assert {each.status for each in rights.answers("asking")} <= {200, 0}
    assert took > 0


def bearers(canary: Internet, mark: int) -> list[str]:
    """The credentials that came to the stand-in for the internet, in their order."""
    return [found[1] for head in canary.heads(mark) if (found := BEARER.search(head))]


def gateway_processes(chart: InstalledChart) -> set[str]:
    return {each["containerID"] for pod in chart.proxies() for each in pod["status"]["containerStatuses"]}


def test_a_secret_is_in_its_secret_and_on_its_way_upstream_and_nowhere_else(
    rights: InstalledChart, claims: AgentSandbox, canary: Internet
) -> None:
    """C23: objects, Events, logs of containers and of the node, and all that processes of sandboxes hold."""
    mark = canary.mark()
    pool = WarmPool(claims, rights, "searched", annotations={PROFILE: "reader"})
    member = pool.member()
    claims.adopt(claims.claim("searched", pool.pool, {PROFILE: "reader"}), member)
    rights.start_asking("tracking", "one.example.com", "tracker")
    names = (member["metadata"]["name"], "tracking")
    for name in names:
        rights.until_answered(name, 200)
    values = {name: secret_of(rights, name) for name in ("egress-token", "live")}
    assert set(values.values()) <= set(bearers(canary, mark)), "both were injected"
    needles = [form for value in values.values() for form in forms(value)]
    objects = all_objects(rights)
    assert [each for each in needles if each in objects["secrets"]], "the search finds them where they are"
    for kind, text in objects.items():
        if kind != "secrets":
            assert not [each for each in needles if each in text], f"a secret is in {kind}"
    for file in rights.cluster.folders.logs.rglob("*"):
        if file.is_file():
            text = file.read_text("utf-8", "replace")
            assert not [each for each in needles if each in text], f"a secret is in {file}"
    for pod in rights.cluster.pods(rights.namespace):
        held = container_logs(rights, pod)
        assert not [each for each in needles if each in held], (
            f"a log of {pod['metadata']['name']} has a secret"
        )
    assert needle_in_processes(rights, "egress-proxy-0", "proxy", needles), "the proxy itself holds them"
    for name in names:
        assert not needle_in_processes(rights, name, "workload", needles), f"a process of {name} has a secret"


def secret_of(chart: InstalledChart, name: str) -> str:
    data = chart.cluster.api.get(chart.path(f"secrets/{name}"))["data"]["token"]
    return base64.b64decode(data).decode()


def forms(value: str) -> list[str]:
    return [value, base64.b64encode(value.encode()).decode().rstrip("=")]


def all_objects(chart: InstalledChart) -> dict[str, str]:
    """Every object of the namespace that can be listed, Events among them, by kind."""
    words = ("api-resources", "--namespaced", "--verbs=list", "-o", "name")
    kinds = chart.cluster.kubectl(*words).split()
    assert "events" in kinds
    return {kind: chart.cluster.kubectl("-n", chart.namespace, "get", kind, "-o", "json") for kind in kinds}


def container_logs(chart: InstalledChart, pod: Json) -> str:
    name = pod["metadata"]["name"]
    return chart.cluster.kubectl("-n", chart.namespace, "logs", name, "--all-containers", "--ignore-errors")


def needle_in_processes(chart: InstalledChart, pod: str, container: str, needles: list[str]) -> bool:
    """Whether the memory, environment, arguments or an open file of a container's processes has one."""
    for process in container_processes(chart, pod, container):
        for found in (process / "environ", process / "cmdline", *(process / "fd").iterdir()):
            if found.is_file() and any(each.encode() in found.read_bytes() for each in needles):
                return True
        for _, memory in readable_memory(process):
            if any(each.encode() in memory for each in needles):
                return True
    return False


def readable_memory(process: Path) -> Iterator[tuple[int, bytes]]:
    with (process / "mem").open("rb", 0) as memory:
        for line in _text(process / "maps").splitlines():
            place, rights, *_ = line.split()
            start, end = (int(each, 16) for each in place.split("-"))
            if not rights.startswith("rw"):
                continue
            try:
                memory.seek(start)
                yield start, memory.read(end - start)
            except (OSError, ValueError, OverflowError):
                continue


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""
