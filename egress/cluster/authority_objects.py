"""The authority of a gateway as objects of its namespace: the key for its replicas, the certificate for pods.

The job creates both and never changes them: whoever trusts a certificate would be cut off by another one. Two
jobs at a time are no harm, since the API server lets only one of them create the Secret, and both go on from
there. `authority_renewal` puts a second authority beside the first.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from egress.cluster.api_call import ApiRefusedError, Json, call
from egress.cluster.api_server import ClusterApi
from egress.errors import ContentError

AUTHORITY_NAME: Final = "egress-authority"
TRUST_NAME: Final = "egress-trust"
AUTHORITY_KEY: Final = "authority.pem"
AUDIT_KEY: Final = "audit.key"
"""The key of the audit logs of all replicas, so that their chains verify as one log."""
CERTIFICATE_KEY: Final = "ca.pem"
BUNDLE_KEY: Final = "bundle.pem"
_AUDIT_KEY_BYTES: Final = 32
_LABELS: Final = {"app.kubernetes.io/name": "egress"}


@dataclass(frozen=True, slots=True)
class TrustTexts:
    """The texts for pods: the certificates alone, and with the public roots."""

    certificates: tuple[str, ...]
    """One, or two during a renewal."""
    bundle: str

    @property
    def data(self) -> Json:
        """The data of the ConfigMap."""
        return {CERTIFICATE_KEY: "".join(self.certificates), BUNDLE_KEY: self.bundle}


def keep_authority(api: ClusterApi, make: Callable[[], bytes]) -> tuple[bytes, bool]:
    """Return the file of the authority in the cluster, and whether it was made now.

    `make` makes it where there is none. Raises `ApiRefusedError`, `UnreadableError`, and `ContentError` for a
    Secret of this name that holds something else.
    """
    made = make()
    files = {AUTHORITY_KEY: made, AUDIT_KEY: secrets.token_bytes(_AUDIT_KEY_BYTES)}
    data = {name: base64.b64encode(file).decode("ascii") for name, file in files.items()}
    if _create(api, "secrets", AUTHORITY_NAME, {"kind": "Secret", "type": "Opaque", "data": data}):
        return made, True
    secret = read_object(api, "secrets", AUTHORITY_NAME)
    found = data_of(secret).get(AUTHORITY_KEY)
    if found is None and AUDIT_KEY in data_of(secret):
        # Taken out to be renewed: the key of the log stays, or its lines could not be verified any more.
        put_authority(api, secret, made)
        return made, True
    return file_of(api, secret), False


def file_of(api: ClusterApi, secret: Json) -> bytes:
    """Return the file of the authority in its Secret. Raises `ContentError`."""
    found = data_of(secret).get(AUTHORITY_KEY)
    try:
        return base64.b64decode(found if isinstance(found, str) else "", validate=True)
    except (binascii.Error, ValueError):
        # The text may be a key: it is not quoted.
        raise ContentError(
            f"the Secret {AUTHORITY_NAME} does not hold {AUTHORITY_KEY}", _delete_both(api)
        ) from None


def put_authority(api: ClusterApi, secret: Json, file: bytes) -> None:
    """Put another file into the Secret that was read. Raises `ApiRefusedError` if it has changed since."""
    # Of two jobs the one that saw an older version is refused, and tries again as a new pod.
    change = {
        "metadata": {"resourceVersion": metadata_of(secret).get("resourceVersion")},
        "data": {AUTHORITY_KEY: base64.b64encode(file).decode("ascii")},
    }
    call(api, "PATCH", api.namespaced("secrets", AUTHORITY_NAME), change)


def keep_trust(api: ClusterApi, texts: TrustTexts) -> bool:
    """Create the ConfigMap that sandboxes mount; return False if it is there with these certificates.

    Raises `ContentError` if it lacks one: sandboxes would refuse what the gateway shows.
    """
    if _create(api, "configmaps", TRUST_NAME, {"kind": "ConfigMap", "data": texts.data}):
        return True
    if not trusts(read_object(api, "configmaps", TRUST_NAME), texts):
        raise ContentError(
            f"the ConfigMap {TRUST_NAME} does not hold the certificate of the Secret {AUTHORITY_NAME}",
            f"run `egress k8s ca --namespace {api.namespace} --renew` if a renewal was cut short, or delete "
            f"the ConfigMap: `kubectl -n {api.namespace} delete configmap {TRUST_NAME}`",
        )
    return False


def trusts(configmap: Json, texts: TrustTexts) -> bool:
    """Report whether the ConfigMap of sandboxes holds each of these certificates."""
    data = data_of(configmap)
    held = [str(data.get(key, "")) for key in (CERTIFICATE_KEY, BUNDLE_KEY)]
    return all(each.strip() in text for each in texts.certificates for text in held)


def _create(api: ClusterApi, resource: str, name: str, value: Json) -> bool:
    meta = {"name": name, "namespace": api.namespace, "labels": _LABELS}
    try:
        call(api, "POST", api.namespaced(resource), {"apiVersion": "v1", "metadata": meta, **value})
    except ApiRefusedError as error:
        if error.reason == "AlreadyExists":
            return False
        raise
    return True


def read_object(api: ClusterApi, resource: str, name: str) -> Json:
    """Read a Secret or a ConfigMap. Raises `ApiRefusedError`, and `UnreadableError`."""
    return call(api, "GET", api.namespaced(resource, name))


def metadata_of(found: Json) -> Json:
    """Return the metadata of an object."""
    metadata = found.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def data_of(found: Json) -> Json:
    """Return the data of a Secret or a ConfigMap."""
    data = found.get("data")
    return data if isinstance(data, dict) else {}


def _delete_both(api: ClusterApi) -> str:
    return (
        f"if no sandbox needs it, delete it: `kubectl -n {api.namespace} delete secret/{AUTHORITY_NAME} "
        f"configmap/{TRUST_NAME}`"
    )
