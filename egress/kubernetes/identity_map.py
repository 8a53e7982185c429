"""The map from the address of a peer to the sandbox behind it, kept by the events of four watches.

Theory of operation. Pods, sandboxes and claims are kept by UID, each at its newest version. Nothing derived
from them is stored but indexes: an identity is worked out when it is asked for, from the newest objects
alone. So the order in which the watches deliver does not matter, and neither do duplicates.

The chain of controller references is followed and labels are not: pod, sandbox by UID, claim by UID. Sandbox
and claim have to name each other, because the reference is what the controller did and the claim is what a
person wrote. Whatever does not fit together is a fault, and a fault denies.

The template of a claimed sandbox is the one that its controller has recorded. What it says about its pods is
a part of the identity, since it bounds what the claim may ask for.

A pod with the label of a sandbox that belongs to no sandbox of agent-sandbox is a sandbox of its own.

Feed it all pods of a namespace, not only those of sandboxes: any pod may have got the address of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network

from egress.kubernetes.pod_identity import (
    TICKET_ANNOTATION,
    Annotations,
    IdentityFault,
    IdentityState,
    PodIdentity,
    tickets_for_egress,
    wishes_for_egress,
)
from egress.kubernetes.pod_shapes import EXTENSIONS_GROUP
from egress.kubernetes.watch_events import (
    Address,
    EventType,
    WatchedClaim,
    WatchedList,
    WatchedObject,
    WatchedPod,
    WatchedSandbox,
    WatchedTemplate,
    WatchEvent,
    WatchKind,
    read_address,
)
from egress.kubernetes.watched_collection import WatchedCollection

type Verdict = PodIdentity | IdentityFault
type SharedNetwork = IPv4Network | IPv6Network
type KnownIdentity = tuple[tuple[object, ...], frozenset[Address], Annotations]
"""The rights of a pod, the addresses at which it has them, and its tickets."""


class IdentityMap:
    """Whose an address is. Every change returns the UIDs of the pods whose connections have to be cut."""

    def __init__(self, shared: Iterable[SharedNetwork] = ()) -> None:
        """`shared` are networks of nodes and services: behind their addresses any pod may be."""
        self.on_tickets_lost: Callable[[str], None] = lambda _uid: None
        """Told of the pod, by its UID, whenever one of its tickets is gone or has changed."""
        self._shared = tuple(shared)
        self._collections = {kind: WatchedCollection() for kind in WatchKind}
        self._at_address: dict[Address, set[str]] = {}
        self._on_node: dict[Address, set[str]] = {}
        self._pods_of_sandbox: dict[str, set[str]] = {}
        self._sandboxes_of_claim: dict[str, set[str]] = {}
        self._sandboxes_named: dict[str, set[str]] = {}
        self._pods_named: dict[str, set[str]] = {}
        self._sandboxes_of_template: dict[str, set[str]] = {}
        self._templates_named: dict[str, set[str]] = {}
        self._with_ticket: dict[str, set[str]] = {}

    # Questions --------------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """Whether all collections were listed, and no watch is lost."""
        return all(collection.is_current for collection in self._collections.values())

    def is_kind_current(self, kind: WatchKind) -> bool:
        """Whether the collection of this kind was listed, and its watch is not lost."""
        return self._collections[kind].is_current

    def find(self, address: str) -> Verdict:
        """Return the identity of a peer, or why it has none."""
        found = self.pod_at(address)
        return self._verdict(found) if isinstance(found, WatchedPod) else found

    def pod_at(self, address: str) -> WatchedPod | IdentityFault:
        """Return the one pod that can have sent from an address, whatever its rights; or why none can."""
        if not self.is_current:
            return IdentityFault.STALE
        try:
            peer = read_address(address)
        except ValueError:
            return IdentityFault.UNKNOWN
        pods = [pod for uid in self._at_address.get(peer, ()) if (pod := self._pod(uid))]
        if any(pod.spec.host_network for pod in pods):
            return IdentityFault.HOST_NETWORK
        if self._is_shared(peer):
            return IdentityFault.NAT
        # Of two pods at one address either is judged to be ambiguous.
        return (self._address_fault(pods[0]) or pods[0]) if pods else IdentityFault.UNKNOWN

    def of_pod(self, uid: str) -> PodIdentity | None:
        """Return the last known identity of a live pod, whether or not the watches are current."""
        pod = self._pod(uid)
        verdict = self._verdict(pod) if pod and not pod.is_over and pod.addresses else None
        return verdict if isinstance(verdict, PodIdentity) else None

    def has_ticket(self, annotation: str) -> bool:
        """Report whether any pod or claim has a statement about this ticket."""
        return annotation in self._with_ticket

    def has_pod(self, uid: str) -> bool:
        """Report whether a pod is there and has not ended."""
        pod = self._pod(uid)
        return pod is not None and not pod.is_over

    def reached(self, kind: WatchKind) -> int:
        """Return the version up to which every change of a collection is known."""
        return self._collections[kind].reached

    def changed(self, kind: WatchKind) -> int:
        """Return the version of the newest change of a collection that is known."""
        return self._collections[kind].changed

    def pods_named(self, name: str) -> tuple[WatchedPod, ...]:
        """Return the pods of this name; two while one is deleted and made anew."""
        return tuple(pod for uid in self._pods_named.get(name, ()) if (pod := self._pod(uid)))

    def siblings(self, name: str) -> frozenset[Address]:
        """Return the addresses of the other live pods that the controller of this pod has made."""
        owners = {owner.uid for pod in self.pods_named(name) if (owner := pod.metadata.controller)}
        uids = {uid for owner in owners for uid in self._pods_of_sandbox.get(owner, ())}
        others = [pod for uid in uids if (pod := self._pod(uid)) and pod.metadata.name != name]
        return frozenset().union(*(pod.addresses for pod in others if self.is_current and not pod.is_over))

    def is_list_due(self, kind: WatchKind) -> bool:
        """Report whether a collection has to be listed anew, although its watch is not lost."""
        return self._collections[kind].is_list_due

    # Changes ----------------------------------------------------------------------------------

    def apply(self, event: WatchEvent, *, is_watched: bool = True) -> frozenset[str]:
        """Take one event of a watch. An error, such as a version that is too old, loses the watch.

        Without `is_watched` the object was asked for by itself, and says nothing about those before it.
        """
        if event.type is EventType.ERROR:
            self.lose(event.kind)
        collection, found = self._collections[event.kind], event.object
        if found is None:
            collection.reach(event.version)
            return frozenset()
        if is_watched:
            collection.reach(found.metadata.version, found.metadata.version)
        if event.type is EventType.DELETED:
            known = collection.bury(found.metadata)
            return self._change(known, None) if known else frozenset()
        return self._put(collection, found) if collection.is_news(found.metadata) else frozenset()

    def replace(self, listed: WatchedList) -> frozenset[str]:
        """Take a list: what it does not have is gone. The collection is current afterwards."""
        collection = self._collections[listed.kind]
        if collection.is_overtaken(listed):
            return frozenset()
        cut = [self._change(found, None) for found in collection.gone_in(listed)]
        collection.close_list(listed)
        cut += [self._put(collection, each) for each in listed.objects if collection.is_newer(each.metadata)]
        return frozenset().union(*cut)

    def clear(self, kind: WatchKind) -> frozenset[str]:
        """Take note that the cluster does not know this kind of object: there is none."""
        collection = self._collections[kind]
        cut = [self._change(found, None) for found in list(collection.objects.values())]
        collection.reset()
        return frozenset().union(*cut)

    def lose(self, kind: WatchKind) -> None:
        """Take note that a watch is lost: everybody is denied until the next list.

        No connection is cut, since nobody is known to have lost a right; the next list cuts those who have.
        """
        self._collections[kind].is_current = False

    def _put(self, collection: WatchedCollection, found: WatchedObject) -> frozenset[str]:
        uid = found.metadata.uid
        return self._change(collection.objects.get(uid), found) if collection.has_room(uid) else frozenset()

    def _change(self, old: WatchedObject | None, new: WatchedObject | None) -> frozenset[str]:
        """Replace an object and return the pods that have lost what they had.

        The pods that it concerns are collected first, before and after alike: an address, an owner or a claim
        may be another one afterwards.
        """
        affected = {uid for found in (old, new) if found for uid in self._affected(found)}
        before = self._identities(affected)
        if old:
            self._unlink(old)
        if new:
            self._link(new)
        after = self._identities(affected)
        for uid, (*_, tickets) in before.items():
            # Rarely there are any, and a pod that is gone has none.
            if tickets and (uid not in after or not set(tickets) <= set(after[uid][2])):
                self.on_tickets_lost(uid)
        return frozenset(uid for uid, known in before.items() if not _has_kept(known, after.get(uid)))

    # Judgement --------------------------------------------------------------------------------

    def _verdict(self, pod: WatchedPod) -> Verdict:
        """Judge a live pod by its addresses, then by its owners."""
        if fault := self._address_fault(pod):
            return fault
        if not pod.metadata.belongs_to_agent_sandbox:
            return self._plain(pod)
        owner = pod.metadata.controller
        sandbox = self._sandbox(owner.uid) if owner else None
        if sandbox is None or sandbox.metadata.namespace != pod.metadata.namespace:
            return IdentityFault.PENDING
        return self._claimed(pod, sandbox)

    def _address_fault(self, pod: WatchedPod) -> IdentityFault | None:
        """Return why the addresses of a live pod say nothing; None if they are its own."""
        if pod.spec.host_network:
            return IdentityFault.HOST_NETWORK
        if any(self._is_shared(address) for address in pod.addresses):
            return IdentityFault.NAT
        if any(len(self._at_address[address]) != 1 for address in pod.addresses):
            return IdentityFault.AMBIGUOUS
        return None

    def _plain(self, pod: WatchedPod) -> Verdict:
        """Judge a pod without a sandbox of agent-sandbox, by its label."""
        meta = pod.metadata
        if not meta.is_workload:
            return IdentityFault.UNOWNED
        # Rules, limits and the log know a sandbox by its name.
        if meta.name in self._sandboxes_named:
            return IdentityFault.AMBIGUOUS
        state = IdentityState.PLAIN if meta.deletion_timestamp is None else IdentityState.ENDING
        return PodIdentity(
            meta.namespace,
            meta.name,
            meta.uid,
            meta.name,
            "",
            state,
            annotations=wishes_for_egress(meta.annotations),
            tickets=tickets_for_egress(meta.annotations),
        )

    def _claimed(self, pod: WatchedPod, sandbox: WatchedSandbox) -> Verdict:
        """Judge a pod by the owner of its sandbox: a pool, or a claim that names this sandbox."""
        holder = sandbox.metadata.controller
        if holder is None or holder.group != EXTENSIONS_GROUP:
            return IdentityFault.UNCLAIMED
        if _is_pooled(sandbox):
            return _identity(pod, sandbox, IdentityState.POOLED)
        if holder.kind != "SandboxClaim":
            return IdentityFault.UNCLAIMED
        claim = self._claim(holder.uid)
        if claim is None or claim.metadata.namespace != pod.metadata.namespace:
            return IdentityFault.PENDING
        # Both ends have to say so, or a claim could be given a sandbox that it never got.
        if claim.sandbox_name != sandbox.metadata.name:
            return IdentityFault.PENDING
        if self._namesakes(claim) != 1:
            return IdentityFault.AMBIGUOUS
        ends = any(each.metadata.deletion_timestamp is not None for each in (pod, sandbox, claim))
        state = IdentityState.ENDING if ends else IdentityState.CLAIMED
        # Those of the claim alone: annotations of the pod may be written by others.
        tickets = tickets_for_egress(claim.metadata.annotations)
        return replace(
            _identity(pod, sandbox, state, claim), template=self._template(sandbox), tickets=tickets
        )

    def _template(self, sandbox: WatchedSandbox) -> Annotations | None:
        """Return what the template of a sandbox says about its pods; None if it is not there."""
        name = sandbox.metadata.template
        if not name:
            return ()
        objects = self._collections[WatchKind.TEMPLATES].objects
        found = [objects[uid] for uid in self._templates_named.get(name, ())]
        # Two of one name are one that was made anew; which of them holds is known once the other is gone.
        [template] = found if len(found) == 1 else [None]
        return template.annotations if isinstance(template, WatchedTemplate) else None

    def _namesakes(self, claim: WatchedClaim) -> int:
        """Count the sandboxes of a claim that have the name it says: an old one may not be gone yet."""
        owned = (self._sandbox(uid) for uid in self._sandboxes_of_claim.get(claim.metadata.uid, ()))
        return [each.metadata.name for each in owned if each].count(claim.sandbox_name)

    def _is_shared(self, address: Address) -> bool:
        """Report whether other pods may send from this address, too: that of a node, or a network's."""
        return address in self._on_node or any(address in network for network in self._shared)

    def _identities(self, pods: Iterable[str]) -> dict[str, KnownIdentity]:
        """Return the identities of pods, whether or not the watches are current."""
        found: dict[str, KnownIdentity] = {}
        for uid in pods:
            pod, verdict = self._pod(uid), self.of_pod(uid)
            if pod and verdict:
                found[uid] = (verdict.rights, pod.addresses, verdict.tickets)
        return found

    # Indexes ----------------------------------------------------------------------------------

    def _pod(self, uid: str) -> WatchedPod | None:
        found = self._collections[WatchKind.PODS].objects.get(uid)
        return found if isinstance(found, WatchedPod) else None

    def _sandbox(self, uid: str) -> WatchedSandbox | None:
        found = self._collections[WatchKind.SANDBOXES].objects.get(uid)
        return found if isinstance(found, WatchedSandbox) else None

    def _claim(self, uid: str) -> WatchedClaim | None:
        found = self._collections[WatchKind.CLAIMS].objects.get(uid)
        return found if isinstance(found, WatchedClaim) else None

    def _affected(self, found: WatchedObject) -> set[str]:
        """Return the pods whose identity may depend on an object."""
        uid, owner = found.metadata.uid, found.metadata.controller
        if isinstance(found, WatchedPod):
            near = found.addresses | found.node_addresses
            return {uid}.union(*(self._at_address.get(address, ()) for address in near))
        if isinstance(found, WatchedTemplate):
            made = self._sandboxes_of_template.get(found.metadata.name, ())
            return set().union(*(self._pods_of_sandbox.get(each, ()) for each in made))
        sandboxes = self._sandboxes_of_claim.get(uid, set())
        if isinstance(found, WatchedSandbox):
            # A sandbox also counts for its namesakes at the same claim.
            sandboxes = {uid}.union(self._sandboxes_of_claim.get(owner.uid, ()) if owner else ())
        # A plain pod loses its name to a sandbox.
        pods = (
            set(self._pods_named.get(found.metadata.name, ())) if isinstance(found, WatchedSandbox) else set()
        )
        return pods.union(*(self._pods_of_sandbox.get(each, ()) for each in sandboxes))

    def _link(self, found: WatchedObject) -> None:
        uid, owner = found.metadata.uid, found.metadata.controller
        self._collections[_kind_of(found)].objects[uid] = found
        for index, key in self._keys(found):
            index.setdefault(key, set()).add(uid)
        for annotation in _ticket_names(found):
            self._with_ticket.setdefault(annotation, set()).add(uid)
        if (names := self._names_of(found)) is not None:
            names.setdefault(found.metadata.name, set()).add(uid)
        if template := _template_name(found):
            self._sandboxes_of_template.setdefault(template, set()).add(uid)
        if (owned := self._owned_of(found)) is not None and owner:
            owned.setdefault(owner.uid, set()).add(uid)

    def _unlink(self, found: WatchedObject) -> None:
        uid, owner = found.metadata.uid, found.metadata.controller
        del self._collections[_kind_of(found)].objects[uid]
        for index, key in self._keys(found):
            _discard(index, key, uid)
        for annotation in _ticket_names(found):
            _discard(self._with_ticket, annotation, uid)
        if (names := self._names_of(found)) is not None:
            _discard(names, found.metadata.name, uid)
        if template := _template_name(found):
            _discard(self._sandboxes_of_template, template, uid)
        if (owned := self._owned_of(found)) is not None and owner:
            _discard(owned, owner.uid, uid)

    def _owned_of(self, found: WatchedObject) -> dict[str, set[str]] | None:
        """Return the index by the owner of such an object; None if nobody asks what its owner has."""
        if isinstance(found, WatchedPod):
            return self._pods_of_sandbox
        # The sandboxes of a pool say nothing about each other, and a pool can have thousands.
        return (
            self._sandboxes_of_claim if isinstance(found, WatchedSandbox) and not _is_pooled(found) else None
        )

    def _names_of(self, found: WatchedObject) -> dict[str, set[str]] | None:
        if isinstance(found, WatchedPod):
            return self._pods_named
        if isinstance(found, WatchedTemplate):
            return self._templates_named
        return self._sandboxes_named if isinstance(found, WatchedSandbox) else None

    def _keys(self, found: WatchedObject) -> list[tuple[dict[Address, set[str]], Address]]:
        """Return the places of an object in the indexes of addresses."""
        if not isinstance(found, WatchedPod):
            return []
        # A pod that is over keeps an address in its status that may be another pod's already.
        own = () if found.is_over else found.addresses
        return [
            *((self._at_address, address) for address in own),
            *((self._on_node, address) for address in found.node_addresses),
        ]


def _kind_of(found: WatchedObject) -> WatchKind:
    if isinstance(found, WatchedPod):
        return WatchKind.PODS
    if isinstance(found, WatchedTemplate):
        return WatchKind.TEMPLATES
    return WatchKind.SANDBOXES if isinstance(found, WatchedSandbox) else WatchKind.CLAIMS


def _is_pooled(found: WatchedSandbox) -> bool:
    """Report whether a sandbox belongs to a pool, and to nobody yet."""
    holder = found.metadata.controller
    return holder is not None and (holder.group, holder.kind) == (EXTENSIONS_GROUP, "SandboxWarmPool")


def _template_name(found: WatchedObject) -> str:
    """Return the template on which the rights of a sandbox depend; empty for other objects, and in a pool."""
    return found.metadata.template if isinstance(found, WatchedSandbox) and not _is_pooled(found) else ""


def _ticket_names(found: WatchedObject) -> tuple[str, ...]:
    """Return the names of the statements about tickets that an object has."""
    if not isinstance(found, WatchedPod | WatchedClaim):
        return ()
    return tuple(name for name in found.metadata.annotations if name.startswith(TICKET_ANNOTATION))


def _discard[K](index: dict[K, set[str]], key: K, uid: str) -> None:
    index[key].discard(uid)
    if not index[key]:
        del index[key]


def _has_kept(before: KnownIdentity, after: KnownIdentity | None) -> bool:
    """Report whether a pod has the same rights, and still has every address it had."""
    return after is not None and before[0] == after[0] and before[1] <= after[1]


def _identity(
    pod: WatchedPod, sandbox: WatchedSandbox, state: IdentityState, claim: WatchedClaim | None = None
) -> PodIdentity:
    held = (claim.metadata.name, claim.metadata.uid, claim.annotations) if claim else ("", "", ())
    return PodIdentity(
        pod.metadata.namespace,
        pod.metadata.name,
        pod.metadata.uid,
        sandbox.metadata.name,
        sandbox.metadata.uid,
        state,
        *held,
    )
