"""The authority of a gateway as objects of its namespace: the key for its replicas, the certificate for pods.

Both are created and never changed: whoever trusts a certificate would be cut off by another one. Two jobs at
a time are no harm, since the API server lets only one of them create the Secret, and both go on from there.
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
    """What pods get: the certificate alone, and with the public roots."""

    certificate: str
    bundle: str


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
    secret = _read(api, "secrets", AUTHORITY_NAME)
    found = _data(secret).get(AUTHORITY_KEY)
    if found is None and AUDIT_KEY in _data(secret):
        # Taken out to be renewed: the key of the log stays, or its lines could not be verified any more.
        _add_authority(api, secret, data[AUTHORITY_KEY])
        return made, True
    try:
        return base64.b64decode(found if isinstance(found, str) else "", validate=True), False
    except (binascii.Error, ValueError):
        # The text may be a key: it is not quoted.
        raise ContentError(
            f"the Secret {AUTHORITY_NAME} does not hold {AUTHORITY_KEY}", _delete_both(api)
        ) from None


def _add_authority(api: ClusterApi, secret: Json, data: str) -> None:
    meta = secret.get("metadata")
    version = meta.get("resourceVersion") if isinstance(meta, dict) else None
    # Of two jobs the one that saw an older version is refused, and tries again as a new pod.
    change = {"metadata": {"resourceVersion": version}, "data": {AUTHORITY_KEY: data}}
    call(api, "PATCH", f"{_path(api, 'secrets')}/{AUTHORITY_NAME}", change)


def keep_trust(api: ClusterApi, texts: TrustTexts) -> bool:
    """Create the ConfigMap that sandboxes mount; return False if it is there with this certificate.

    Raises `ContentError` if it has another one: sandboxes would refuse what the gateway shows.
    """
    data = {CERTIFICATE_KEY: texts.certificate, BUNDLE_KEY: texts.bundle}
    if _create(api, "configmaps", TRUST_NAME, {"kind": "ConfigMap", "data": data}):
        return True
    found = _data(_read(api, "configmaps", TRUST_NAME))
    # While an authority is exchanged the ConfigMap holds two certificates.
    if any(texts.certificate.strip() not in str(found.get(key, "")) for key in (CERTIFICATE_KEY, BUNDLE_KEY)):
        raise ContentError(
            f"the ConfigMap {TRUST_NAME} does not hold the certificate of the Secret {AUTHORITY_NAME}",
            f"add it, or delete the ConfigMap: `kubectl -n {api.namespace} delete configmap {TRUST_NAME}`",
        )
    return False


def _create(api: ClusterApi, resource: str, name: str, value: Json) -> bool:
    meta = {"name": name, "namespace": api.namespace, "labels": _LABELS}
    try:
        call(api, "POST", _path(api, resource), {"apiVersion": "v1", "metadata": meta, **value})
    except ApiRefusedError as error:
        if error.reason == "AlreadyExists":
            return False
        raise
    return True


def _read(api: ClusterApi, resource: str, name: str) -> Json:
    return call(api, "GET", f"{_path(api, resource)}/{name}")


def _path(api: ClusterApi, resource: str) -> str:
    return f"/api/v1/namespaces/{api.namespace}/{resource}"


def _data(found: Json) -> Json:
    data = found.get("data")
    return data if isinstance(data, dict) else {}


def _delete_both(api: ClusterApi) -> str:
    return (
        f"if no sandbox needs it, delete it: `kubectl -n {api.namespace} delete secret/{AUTHORITY_NAME} "
        f"configmap/{TRUST_NAME}`"
    )
