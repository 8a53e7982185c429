"""An authority: the key that signs certificates for the clients of one sandbox, and the leaves signed so far.

Theory of operation. Each sandbox has its own authority, a self-signed root, so that a certificate made for
one sandbox is worthless in another. `create` makes an authority in memory that ends with the process; an
`AuthorityStore` keeps lasting ones. All leaves share a key that is not the authority's: a stolen leaf key can
answer for known hosts of one sandbox, not sign for new ones.

A leaf is for exactly one host, never for a wildcard. The authority signs any name it is asked for: who may go
where is decided before. A leaf for a denied host is made only to tell its client so.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Final, Never

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from egress.ca import issue, keyfile
from egress.ca.constraints import Constraints
from egress.ca.issue import DAY_SECONDS, Leaf
from egress.errors import ContentError
from egress.rules.language.hosts import is_address, is_canonical

EPHEMERAL_LIFETIME: Final = 7 * DAY_SECONDS
MAX_LEAVES: Final = 1024
RENEWAL_MARGIN: Final = 2 * 3600


class Authority:
    """Signs certificates for the hosts of one sandbox."""

    __slots__ = (
        "__weakref__",
        "_key",
        "_leaf_key",
        "_leaves",
        "certificate",
        "constraints",
        "name",
        "not_after",
        "not_before",
    )

    def __init__(self, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.name = name
        self.certificate = certificate
        self.constraints = Constraints.read(certificate)
        self.not_before = int(certificate.not_valid_before_utc.timestamp())
        self.not_after = int(certificate.not_valid_after_utc.timestamp())
        self._key = key
        # Leaves share a key: a new host then costs only a signature, and the key never reaches a file.
        self._leaf_key = issue.new_key()
        self._leaves: OrderedDict[str, Leaf] = OrderedDict()

    @classmethod
    def create(
        cls, name: str, now: int, constraints: Constraints | None = None, life: int = EPHEMERAL_LIFETIME
    ) -> Authority:
        """Create a new authority that exists only in memory."""
        key = issue.new_key()
        return cls(name, key, issue.root_certificate(name, key, now, life, constraints))

    @classmethod
    def load(cls, path: Path) -> Authority:
        """Read an authority written by an `AuthorityStore`.

        Raises `UnreadableError` if the file is missing or open to others, `ContentError` if it holds no
        authority of Egress.
        """
        key, certificate = keyfile.read(path)
        return cls(path.stem, key, certificate)

    @classmethod
    def load_mounted(cls, path: Path, now: int) -> Authority:
        """Read the authority that a cluster keeps, and that all replicas of a proxy have together.

        Of two the older one: every pod trusts it, and pods from before the renewal trust no other.
        Raises `UnreadableError` and `ContentError`, also where each has expired.
        """
        found = (cls(path.stem, *pair) for pair in keyfile.read_from_cluster(path))
        valid = next((each for each in found if each.is_valid_at(now)), None)
        if valid is None:
            raise ContentError(
                f"the certificate authority in {path} has expired, or the clock is wrong",
                "take it out of its secret, delete the ConfigMap of its certificate, and run `egress k8s ca`",
            )
        return valid

    @property
    def certificate_pem(self) -> bytes:
        """Return the certificate for clients to trust. It holds no secret."""
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def subject(self) -> str:
        return self.certificate.subject.rfc4514_string()

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the certificate in the format of browsers and `openssl x509`."""
        return self.certificate.fingerprint(hashes.SHA256()).hex(":").upper()

    def is_valid_at(self, now: int) -> bool:
        return self.not_before <= now < self.not_after

    def renewed(self, now: int, life: int = EPHEMERAL_LIFETIME) -> Authority:
        """Return this authority with a later end: same name, key and constraints, a new certificate.

        Leaves are valid below both certificates, so clients may switch at any time.
        """
        certificate = issue.root_certificate(self.name, self._key, now, life, self.constraints)
        return Authority(self.name, self._key, certificate)

    def leaf(self, host: str, now: int) -> Leaf:
        """Return the certificate and key for a canonical host; cached, and renewed before it ends.

        Raises `ContentError` for a name that is not canonical or not permitted by the constraints, and if the
        authority itself has expired.
        """
        leaf = self._leaves.get(host)
        # A cached leaf saves a signature for each handshake.
        if leaf is None or not self._is_fresh(leaf, now):
            # Checked before signing; a cached leaf passed when it was issued, and ends with its authority.
            self._check(host, now)
            leaf = self._leaves[host] = self._issue(host, now)
            if len(self._leaves) > MAX_LEAVES:
                # Bounded, because a sandbox chooses the names: the least recently used leaf goes.
                self._leaves.popitem(last=False)
        self._leaves.move_to_end(host)
        return leaf

    def can_sign(self, host: str, now: int) -> bool:
        """Tell whether clients that trust this authority would accept its certificate for a host name."""
        if is_address(host):
            return False
        try:
            self._check(host, now)
        except ContentError:
            return False
        return True

    def _is_fresh(self, leaf: Leaf, now: int) -> bool:
        # A leaf that ends with its authority cannot last longer, so renewing it early gains nothing.
        margin = 0 if leaf.not_after >= self.not_after else RENEWAL_MARGIN
        return leaf.not_before <= now < leaf.not_after - margin

    def _check(self, host: str, now: int) -> None:
        if not is_canonical(host):
            raise ContentError("a certificate was requested for a name that is not canonical")
        # The clients would refuse such a leaf; a clear error is better than a failed handshake.
        if self.constraints is not None and not self.constraints.permits(host):
            raise ContentError(
                f"the certificate authority {self.name} is not permitted to sign for {host}",
                "restart the sandbox: its new authority covers the hosts of the current rules",
            )
        if not self.is_valid_at(now):
            raise ContentError(
                f"the certificate authority {self.name} is not valid at this time",
                "check the clock; if it is right, restart the proxy: it prints the command for a new one",
            )

    def _issue(self, host: str, now: int) -> Leaf:
        public = self._leaf_key.public_key()
        certificate = issue.leaf_certificate(host, public, self.certificate, self._key, now)
        ends = int(certificate.not_valid_after_utc.timestamp())
        return Leaf(host, certificate, self._leaf_key, now - issue.CLOCK_SKEW, ends)

    def __repr__(self) -> str:
        return f"Authority({self.name!r}, {self.fingerprint})"

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError(f"{self!r} must not be pickled or copied: it holds a key")
