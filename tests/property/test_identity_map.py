"""Whatever order the watches deliver in, an address has no more rights than the last known claim gives.

A made-up cluster lives its life, and three watches tell of it: late, twice, in another order, with losses and
new lists. After each step the map is compared with a slow reading of all that was told, and no connection
stays open that the map would not open again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from egress.kubernetes.identity_map import IdentityMap, Verdict
from egress.kubernetes.pod_identity import IdentityFault, IdentityState, PodIdentity
from egress.kubernetes.watch_events import (
    EventType,
    WatchedClaim,
    WatchedObject,
    WatchedPod,
    WatchedSandbox,
    WatchEvent,
    WatchKind,
)
from tests.tiers import examples
from tests.unit.kubernetes.watch_samples import (
    POOL,
    Json,
    claim,
    event,
    listed,
    owner,
    plain_pod,
    pod,
    sandbox,
)

PODS, SANDBOXES, CLAIMS = WatchKind.PODS, WatchKind.SANDBOXES, WatchKind.CLAIMS
ADDRESSES: Final = ("10.0.0.1", "10.0.0.2", "fd00::1")
KINDS: Final = tuple(WatchKind)


@dataclass
class Cluster:
    """The truth, and the events that each watch has still to tell."""

    version: int = 0
    made: int = 0
    objects: dict[WatchKind, dict[str, Json]] = field(
        default_factory=lambda: {kind: {} for kind in WatchKind}
    )
    log: dict[WatchKind, list[WatchEvent]] = field(default_factory=lambda: {kind: [] for kind in WatchKind})
    pairs: set[tuple[str, str]] = field(default_factory=set)
    """Every pod and claim that ever belonged together."""
    addressed: set[tuple[str, str]] = field(default_factory=set)
    """Every pod with each address it ever had."""

    def name(self, letter: str) -> str:
        self.made += 1
        return f"{letter}{self.made}"

    def put(self, kind: WatchKind, value: Json) -> None:
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        self.objects[kind][value["metadata"]["uid"]] = value
        self.log[kind].append(event(kind, value))
        self._remember()

    def delete(self, kind: WatchKind, value: Json) -> None:
        self.version += 1
        del self.objects[kind][value["metadata"]["uid"]]
        last = value | {"metadata": value["metadata"] | {"resourceVersion": str(self.version)}}
        self.log[kind].append(event(kind, last, EventType.DELETED))

    def pick(self, kind: WatchKind, number: int) -> Json | None:
        found = list(self.objects[kind].values())
        return found[number % len(found)] if found else None

    def step(self, what: str, one: int, two: int) -> None:
        """Let something happen: what a user, a controller or a node does."""
        address = ADDRESSES[two % len(ADDRESSES)]
        if what == "sandbox":
            name = self.name("s")
            self.put(SANDBOXES, sandbox(name, 0, POOL))
            self.put(PODS, pod(self.name("p"), 0, address, sandbox=name))
        elif what == "plain":
            # Sometimes under the name of a sandbox.
            taken = self.pick(SANDBOXES, one) if two % 2 else None
            self.put(PODS, plain_pod(taken["metadata"]["name"] if taken else self.name("j"), 0, address))
        elif what == "claim":
            self.put(CLAIMS, claim(self.name("c"), 0, profile="reviewer"))
        elif what == "delete":
            kind = KINDS[two % len(KINDS)]
            if found := self.pick(kind, one):
                self.delete(kind, found)
        elif (some_pod := self.pick(PODS, one)) and what in {"fail", "address"}:
            new = {"phase": "Failed"} if what == "fail" else {"address": address}
            self.put(PODS, changed(some_pod, **new))
        elif (some_claim := self.pick(CLAIMS, one)) and what in {"profile", "end"}:
            new = {"profile": f"profile-{two}"} if what == "profile" else {"ending": "yes"}
            self.put(CLAIMS, changed(some_claim, **new))
        elif some_sandbox := self.pick(SANDBOXES, one):
            self._step_of_sandbox(what, some_sandbox, two)

    def _step_of_sandbox(self, what: str, some_sandbox: Json, two: int) -> None:
        some_claim = self.pick(CLAIMS, two)
        if what == "adopt" and some_claim:
            self._adopt(some_sandbox, some_claim)
        elif what == "wake":
            # A sandbox that wakes up has a new pod, beside the old one for a moment.
            woken = pod(self.name("p"), 0, ADDRESSES[two % len(ADDRESSES)])
            meta = some_sandbox["metadata"]
            woken["metadata"]["ownerReferences"] = [owner("Sandbox", meta["name"], meta["uid"])]
            self.put(PODS, woken)
        elif what == "remake":
            # Another sandbox with the name and the claim of one that is not gone yet.
            again = changed(some_sandbox)
            again["metadata"]["uid"] = self.name("u")
            self.put(SANDBOXES, again)

    def _adopt(self, some_sandbox: Json, some_claim: Json) -> None:
        """The claim controller: the owner of the sandbox first, the status of the claim later."""
        uid, name = some_claim["metadata"]["uid"], some_claim["metadata"]["name"]
        is_pooled = some_sandbox["metadata"]["ownerReferences"] == [POOL]
        has_one = any(
            each["metadata"]["ownerReferences"][0]["uid"] == uid for each in self.objects[SANDBOXES].values()
        )
        if is_pooled and not has_one:
            self.put(
                SANDBOXES, sandbox(some_sandbox["metadata"]["name"], 0, owner("SandboxClaim", name, uid))
            )
        elif some_sandbox["metadata"]["ownerReferences"][0]["uid"] == uid:
            self.put(CLAIMS, changed(some_claim, got=some_sandbox["metadata"]["name"]))

    def _remember(self) -> None:
        for each in self.objects[PODS].values():
            uid = each["metadata"]["uid"]
            self.addressed |= {(uid, address["ip"]) for address in each["status"]["podIPs"]}
            owners = each["metadata"]["ownerReferences"]
            held = self.objects[SANDBOXES].get(owners[0]["uid"]) if owners else None
            if held:
                self.pairs.add((uid, held["metadata"]["ownerReferences"][0]["uid"]))


def changed(value: Json, **change: str) -> Json:
    """A copy of an object with one change."""
    found = {**value, "metadata": dict(value["metadata"])}
    for what, new in change.items():
        if what == "address":
            found["status"] = {**value["status"], "podIP": new, "podIPs": [{"ip": new}]}
        elif what == "phase":
            found["status"] = {**value["status"], "phase": new}
        elif what == "got":
            found["status"] = {"sandbox": {"name": new}}
        elif what == "profile":
            found["spec"] = {"additionalPodMetadata": {"annotations": {"egress/profile": new}}}
        elif what == "ending":
            found["metadata"]["deletionTimestamp"] = "2026-11-20T00:00:00Z"
    return found


@dataclass
class Told:
    """All that a kind of watch has told, read slowly."""

    is_current: bool = False
    floor: int = -1
    newest: dict[str, tuple[int, WatchedObject | None]] = field(default_factory=dict)

    def take(self, found: WatchEvent) -> None:
        assert found.object is not None
        meta = found.object.metadata
        if meta.version > max(self.floor, self.newest.get(meta.uid, (-1, None))[0]):
            gone = found.type is EventType.DELETED
            self.newest[meta.uid] = (meta.version, None if gone else found.object)

    def take_list(self, version: int, objects: tuple[WatchedObject, ...]) -> None:
        if version < self.floor:
            return
        later = {uid: each for uid, each in self.newest.items() if each[0] > version}
        self.newest = {each.metadata.uid: (each.metadata.version, each) for each in objects} | later
        self.floor, self.is_current = version, True

    @property
    def objects(self) -> list[Any]:
        return [each for _, each in self.newest.values() if each is not None]


def expected(told: dict[WatchKind, Told], address: str) -> Verdict | None:
    """The identity of an address after a slow reading; None for whatever is a fault."""
    if not all(each.is_current for each in told.values()):
        return IdentityFault.STALE
    pods: list[WatchedPod] = [each for each in told[PODS].objects if not each.is_over]
    here = [each for each in pods if address in map(str, each.addresses)]
    if len(here) != 1:
        return None
    (only,) = here
    if not only.metadata.controller:
        taken = only.metadata.name in [each.metadata.name for each in told[SANDBOXES].objects]
        meta = only.metadata
        plain = PodIdentity(meta.namespace, meta.name, meta.uid, meta.name, "", IdentityState.PLAIN)
        return None if taken else plain
    sandboxes: list[WatchedSandbox] = told[SANDBOXES].objects
    mine = [each for each in sandboxes if each.metadata.uid == only.metadata.controller.uid]
    if not mine or not mine[0].metadata.controller:
        return None
    holder = mine[0].metadata.controller
    names = (only.metadata.namespace, only.metadata.name, only.metadata.uid)
    box = (mine[0].metadata.name, mine[0].metadata.uid)
    if holder.kind == "SandboxWarmPool":
        return PodIdentity(*names, *box, IdentityState.POOLED)
    claims: list[WatchedClaim] = [each for each in told[CLAIMS].objects if each.metadata.uid == holder.uid]
    if not claims or claims[0].sandbox_name != mine[0].metadata.name:
        return None
    owners = [(each, each.metadata.controller) for each in sandboxes]
    owned = [each for each, holds in owners if holds and holds.uid == holder.uid]
    if [each.metadata.name for each in owned].count(claims[0].sandbox_name) != 1:
        return None
    state = IdentityState.ENDING if claims[0].metadata.deletion_timestamp else IdentityState.CLAIMED
    held = (claims[0].metadata.name, claims[0].metadata.uid)
    return PodIdentity(*names, *box, state, *held, annotations=claims[0].annotations)


HAPPENINGS: Final = (
    *("sandbox", "claim", "adopt", "adopt", "profile", "fail", "address", "wake", "delete", "remake", "end"),
    "plain",
)
STEPS = st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 3), st.integers(0, 5))
NEWS = st.tuples(
    # Seldom lost and often listed: nothing can go wrong while everybody is denied.
    st.sampled_from(
        [*["next"] * 4, *["again"] * 4, *["early"] * 3, *["all"] * 2, "lose", "list", "list", "late-list"]
    ),
    st.integers(0, 2),
    st.integers(0, 9),
)
type Action = tuple[str, int, int]

# Two sandboxes, of which one is claimed: the trial begins where something can go wrong.
BEGINNING: Final[tuple[Action, ...]] = (
    ("sandbox", 0, 0),
    ("sandbox", 0, 1),
    ("claim", 0, 0),
    ("adopt", 0, 0),
    ("adopt", 0, 0),
)


class Trial:
    """One cluster, one map, and the connections that were opened."""

    def __init__(self) -> None:
        self.cluster, self.identities = Cluster(), IdentityMap()
        self.told = {kind: Told() for kind in WatchKind}
        self.cursor = dict.fromkeys(WatchKind, 0)
        self.connections: dict[tuple[str, str], tuple[object, ...]] = {}
        self.snapshots: dict[WatchKind, tuple[int, list[Json]]] = {}
        for kind in WatchKind:
            self.list(kind, 0, [])
        for action in BEGINNING:
            self.play(*action)

    def play(self, action: str, one: int, two: int) -> None:
        kind = KINDS[one % len(KINDS)]
        log, place = self.cluster.log[kind], self.cursor[kind]
        if action in HAPPENINGS:
            self.cluster.step(action, one, two)
        elif action == "all":
            for each in KINDS:
                self.tell_rest(each)
        elif action == "again" and place:
            self.tell(kind, two % place)
        elif action == "next" and place < len(log):
            self.tell(kind, place)
            self.cursor[kind] += 1
        elif action == "early" and place < len(log):
            # An event that another stream has overtaken: told now, and once more in its turn.
            self.tell(kind, place + two % (len(log) - place))
        else:
            self.lose_or_list(action, kind)

    def lose_or_list(self, action: str, kind: WatchKind) -> None:
        now = (self.cluster.version, list(self.cluster.objects[kind].values()))
        if action == "lose":
            self.identities.lose(kind)
            self.told[kind].is_current = False
            self.snapshots[kind] = now
        elif action == "list" and not self.told[kind].is_current:
            self.list(kind, *now)
        elif action == "late-list" and kind in self.snapshots:
            self.list(kind, *self.snapshots[kind])

    def tell_rest(self, kind: WatchKind) -> None:
        while self.cursor[kind] < len(self.cluster.log[kind]):
            self.tell(kind, self.cursor[kind])
            self.cursor[kind] += 1
            self.check()

    def tell(self, kind: WatchKind, place: int) -> None:
        found = self.cluster.log[kind][place]
        self.told[kind].take(found)
        self.cut(self.identities.apply(found))

    def list(self, kind: WatchKind, version: int, values: list[Json]) -> None:
        found = listed(kind, version, *values)
        self.told[kind].take_list(version, found.objects)
        self.cut(self.identities.replace(found))

    def cut(self, pods: frozenset[str]) -> None:
        self.connections = {key: each for key, each in self.connections.items() if key[1] not in pods}

    def check(self) -> None:
        """Compare the map with a slow reading, and with the truth so far; then connect from everywhere."""
        for address in ADDRESSES:
            found, wanted = self.identities.find(address), expected(self.told, address)
            if isinstance(found, PodIdentity):
                assert found == wanted
                # Late is allowed. Never true is not.
                assert (found.pod_uid, address) in self.cluster.addressed
                if found.state not in {IdentityState.POOLED, IdentityState.PLAIN}:
                    assert (found.pod_uid, found.claim_uid) in self.cluster.pairs
            else:
                assert not isinstance(wanted, PodIdentity)
        if self.identities.is_current:
            for (address, uid), rights in self.connections.items():
                found = self.identities.find(address)
                assert isinstance(found, PodIdentity)
                assert (found.pod_uid, found.rights) == (uid, rights)
        for address in ADDRESSES:
            found = self.identities.find(address)
            if isinstance(found, PodIdentity):
                self.connections[address, found.pod_uid] = found.rights


@given(st.lists(STEPS | NEWS, min_size=10, max_size=100))
@settings(max_examples=examples(400), deadline=None)
def test_no_order_of_events_gives_more_than_the_last_known_claim(actions: list[Action]) -> None:
    trial = Trial()
    for action in actions:
        trial.play(*action)
        trial.check()
    # Once all is listed, the map says what is true.
    truth = {kind: Told() for kind in WatchKind}
    for kind in KINDS:
        values = list(trial.cluster.objects[kind].values())
        trial.list(kind, trial.cluster.version, values)
        truth[kind].take_list(trial.cluster.version, listed(kind, trial.cluster.version, *values).objects)
    trial.check()
    for address in ADDRESSES:
        found, wanted = trial.identities.find(address), expected(truth, address)
        assert found == wanted if wanted else isinstance(found, IdentityFault)


def test_the_trial_reaches_every_state() -> None:
    """Otherwise the property above could hold because nobody ever gets an identity."""
    trial = Trial()
    seen = set()
    pods, sandboxes, claims = (("next", number, 0) for number in range(3))
    for action in (pods, sandboxes, sandboxes, sandboxes, claims, claims, ("end", 0, 0), claims):
        trial.play(*action)
        trial.check()
        found = trial.identities.find(ADDRESSES[0])
        seen.add(found.state if isinstance(found, PodIdentity) else found)
    trial.play("plain", 0, 2)
    trial.play("all", 0, 0)
    found = trial.identities.find(ADDRESSES[2])
    seen.add(found.state if isinstance(found, PodIdentity) else found)
    assert seen == {*IdentityState, IdentityFault.PENDING}
