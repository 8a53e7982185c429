"""Renew the authority of a gateway beside the old one: no pod meets a certificate that it refuses.

    renew     the Secret gets the new authority behind the old one, the ConfigMap its certificate
    ...       pods that start now trust both; the gateway signs with the old one, which every pod trusts
    retire    once no pod is older: the old authority leaves the Secret, the gateway signs with the new one
    retire    once every replica does: the old certificate leaves the ConfigMap

Each step is refused before the one in front of it is done, and one that was cut short is finished by the same
command. The caller parses the files: nothing here reads a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from urllib.parse import quote

from egress.cluster.api_call import Json, call
from egress.cluster.api_server import ClusterApi
from egress.cluster.authority_objects import (
    AUTHORITY_NAME,
    CERTIFICATE_KEY,
    TRUST_NAME,
    TrustTexts,
    data_of,
    file_of,
    metadata_of,
    put_authority,
    read_object,
    trusts,
)
from egress.errors import ContentError

RENEWED: Final = "egress/renewed"
RETIRED: Final = "egress/retired"
"""Annotations of the ConfigMap: when a second certificate came, and when the first authority left."""
MARGIN: Final = timedelta(minutes=5)
"""The time until each kubelet has what has changed, in new pods and in the gateway's."""
_MAX_NAMES: Final = 5

type Outcome = Literal["renewed", "completed", "retired", "removed"]


@dataclass(frozen=True, slots=True)
class AuthorityFiles:
    """How a file of authorities is read and made."""

    split: Callable[[bytes], tuple[bytes, ...]]
    """The file of each authority in a file, the oldest first. Raises `ContentError`."""
    trust: Callable[[tuple[bytes, ...]], TrustTexts]
    """The texts for pods that trust all of these."""
    make: Callable[[], bytes]
    """A file with a new authority."""


def renew(api: ClusterApi, files: AuthorityFiles, now: datetime) -> Outcome:
    """Add a new authority, and let new pods trust it. Raises `EgressError`."""
    secret = read_object(api, "secrets", AUTHORITY_NAME)
    trust = read_object(api, "configmaps", TRUST_NAME)
    held = files.split(file_of(api, secret))
    outcome: Outcome = "completed"
    if len(held) == 1:
        if _count(trust) > 1:
            raise ContentError("the renewal before is not finished", f"run `{_command(api)} --retire` first")
        held = (*held, files.make())
        put_authority(api, secret, b"".join(held))
        outcome = "renewed"
    elif trusts(trust, files.trust(held)):
        raise ContentError("a renewal is under way already", f"finish it with `{_command(api)} --retire`")
    _put_trust(api, trust, files.trust(held), {RENEWED: _text(now)})
    return outcome


def retire(api: ClusterApi, files: AuthorityFiles, now: datetime) -> Outcome:
    """Let the gateway sign with the new authority; then remove the old certificate. Raises `EgressError`."""
    secret = read_object(api, "secrets", AUTHORITY_NAME)
    trust = read_object(api, "configmaps", TRUST_NAME)
    held = files.split(file_of(api, secret))
    texts = files.trust(held)
    if len(held) > 1:
        if not trusts(trust, texts):
            raise ContentError(
                "sandboxes do not trust the new authority yet", f"run `{_command(api)} --renew`"
            )
        _refuse_old_pods(api, _moment(trust, RENEWED, api) + MARGIN)
        put_authority(api, secret, held[-1])
        _put_trust(api, trust, None, {RETIRED: _text(now)})
        return "retired"
    if _count(trust) == 1:
        raise ContentError(
            "there is one authority, and nothing to retire", f"add one with `{_command(api)} --renew`"
        )
    if RETIRED not in _notes(trust):
        # Cut short behind the Secret: the replicas have their time from now on.
        _put_trust(api, trust, None, {RETIRED: _text(now)})
        return "retired"
    ready = _moment(trust, RETIRED, api) + MARGIN
    if now < ready:
        raise ContentError(
            "replicas of the gateway may still sign with the old authority",
            f"run this again after {_text(ready)}",
        )
    _put_trust(api, trust, texts, {RENEWED: None, RETIRED: None})
    return "removed"


def _put_trust(
    api: ClusterApi, trust: Json, texts: TrustTexts | None, annotations: dict[str, str | None]
) -> None:
    metadata = {"resourceVersion": metadata_of(trust).get("resourceVersion"), "annotations": annotations}
    change: Json = {"metadata": metadata, **({} if texts is None else {"data": texts.data})}
    call(api, "PATCH", api.namespaced("configmaps", TRUST_NAME), change)


def _count(trust: Json) -> int:
    return str(data_of(trust).get(CERTIFICATE_KEY, "")).count("-----BEGIN CERTIFICATE-----")


def _notes(trust: Json) -> Json:
    annotations = metadata_of(trust).get("annotations")
    return annotations if isinstance(annotations, dict) else {}


def _moment(trust: Json, annotation: str, api: ClusterApi) -> datetime:
    try:
        return datetime.strptime(str(_notes(trust).get(annotation)), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise ContentError(
            f"the ConfigMap {TRUST_NAME} does not say when that began",
            f"set its annotation: `kubectl -n {api.namespace} annotate configmap {TRUST_NAME} "
            f"{annotation}=YYYY-MM-DDTHH:MM:SSZ`",
        ) from None


def _refuse_old_pods(api: ClusterApi, before: datetime) -> None:
    """Raise `ContentError` while a pod runs that was given the old certificate alone."""
    found = sorted(_old_pods(api, before))
    if found:
        more = f" and {len(found) - _MAX_NAMES} more" if len(found) > _MAX_NAMES else ""
        raise ContentError(
            f"{len(found)} pods from before {_text(before)} trust the old authority alone: "
            f"{', '.join(found[:_MAX_NAMES])}{more}",
            "replace them first; until then the gateway signs with the authority that they trust",
        )


def _old_pods(api: ClusterApi, before: datetime) -> Iterator[str]:
    more = ""
    while True:
        page = call(api, "GET", f"{api.namespaced('pods')}?limit=500{more}")
        items = page.get("items")
        for pod in items if isinstance(items, list) else ():
            metadata = metadata_of(pod)
            # Times in this form sort like text.
            if str(metadata.get("creationTimestamp", "")) < _text(before) and _has_trust(pod):
                yield str(metadata.get("name"))
        token = metadata_of(page).get("continue")
        if not token:
            return
        more = f"&continue={quote(str(token), safe='')}"


def _has_trust(pod: Json) -> bool:
    """Report whether a pod that has not ended mounts the certificates."""
    spec, status = pod.get("spec"), pod.get("status")
    if isinstance(status, dict) and status.get("phase") in {"Succeeded", "Failed"}:
        return False
    volumes = spec.get("volumes") if isinstance(spec, dict) else None
    # Below `projected` too, and wherever else a volume names a ConfigMap.
    return isinstance(volumes, list) and any(_names_trust(each) for each in volumes)


def _names_trust(value: object) -> bool:
    if isinstance(value, dict):
        return value.get("name") == TRUST_NAME or any(map(_names_trust, value.values()))
    return isinstance(value, list) and any(map(_names_trust, value))


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _command(api: ClusterApi) -> str:
    return f"egress k8s ca --namespace {api.namespace}"
