"""An authority: the key that signs what the clients of one sandbox see, and the leaves signed so far.

Theory of operation. Each sandbox has an authority of its own, a self-signed root, so that a certificate
made for one is worth nothing in another. `create` makes one that lives in memory and ends with the
process; one that outlives it comes out of a `AuthorityStore`. Leaves share one key, which is not the
authority's:
whoever gets hold of it can answer for hosts of one sandbox, not sign for new ones.

A leaf is for exactly one host, never for a wildcard. It must not be asked for a host that the rules
deny: this signs for whatever it is asked.
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
from egress.rules.language.hosts import is_canonical

EPHEMERAL_LIFETIME: Final = 7 * DAY_SECONDS
MAX_LEAVES: Final = 1024
RENEWAL_MARGIN: Final = 2 * 3600


class Authority:
    """Signs for the hosts of one sandbox."""

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
        self._leaf_key = issue.new_key()
        self._leaves: OrderedDict[str, Leaf] = OrderedDict()

    @classmethod
    def create(
        cls, name: str, now: int, constraints: Constraints | None = None, life: int = EPHEMERAL_LIFETIME
    ) -> Authority:
        """Make a new authority that exists in memory alone."""
        key = issue.new_key()
        return cls(name, key, issue.root_certificate(name, key, now, life, constraints))

    @classmethod
    def load(cls, path: Path) -> Authority:
        """Read the authority a `AuthorityStore` has written.

        Raises `UnreadableError` when the file is missing or others may read it, `ContentError` when it
        holds no authority of ours.
        """
        key, certificate = keyfile.read(path)
        return cls(path.stem, key, certificate)

    @property
    def certificate_pem(self) -> bytes:
        """The certificate that clients are to trust. It holds no secret."""
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def subject(self) -> str:
        return self.certificate.subject.rfc4514_string()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, the way browsers and `openssl x509` show it."""
        return self.certificate.fingerprint(hashes.SHA256()).hex(":").upper()

    def is_valid_at(self, now: int) -> bool:
        return self.not_before <= now < self.not_after

    def renewed(self, now: int, life: int = EPHEMERAL_LIFETIME) -> Authority:
        """The same authority with a later end: same name, key and constraints, a new certificate.

        Leaves of either are valid below both certificates, so clients may change over at leisure.
        """
        certificate = issue.root_certificate(self.name, self._key, now, life, self.constraints)
        return Authority(self.name, self._key, certificate)

    def leaf(self, host: str, now: int) -> Leaf:
        """The certificate and key for one canonical host; kept, and made anew before it ends.

        Raises `ContentError` for a name that is not canonical, one that the constraints do not permit,
        and when the authority itself has ended.
        """
        leaf = self._leaves.get(host)
        if leaf is None or not self._is_fresh(leaf, now):
            self._check(host, now)
            leaf = self._leaves[host] = self._issue(host, now)
            if len(self._leaves) > MAX_LEAVES:
                self._leaves.popitem(last=False)
        self._leaves.move_to_end(host)
        return leaf

    def _is_fresh(self, leaf: Leaf, now: int) -> bool:
        # One that ends with its authority cannot be made to last longer.
        margin = 0 if leaf.not_after >= self.not_after else RENEWAL_MARGIN
        return leaf.not_before <= now < leaf.not_after - margin

    def _check(self, host: str, now: int) -> None:
        if not is_canonical(host):
            raise ContentError("a certificate was asked for a name that has not the canonical spelling")
        if self.constraints is not None and not self.constraints.permits(host):
            raise ContentError(
                f"the certificate authority {self.name} may not sign for {host}",
                "start the sandbox again: its authority is made for the hosts that the rules name then",
            )
        if not self.is_valid_at(now):
            raise ContentError(
                f"the certificate authority {self.name} is not valid at this time",
                "check the clock; if it is right, start the proxy again: it says how to make a new one",
            )

    def _issue(self, host: str, now: int) -> Leaf:
        public = self._leaf_key.public_key()
        certificate = issue.leaf_certificate(host, public, self.certificate, self._key, now)
        ends = int(certificate.not_valid_after_utc.timestamp())
        return Leaf(host, certificate, self._leaf_key, now - issue.CLOCK_SKEW, ends)

    def __repr__(self) -> str:
        return f"Authority({self.name!r}, {self.fingerprint})"

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError(f"{self!r} is not to be pickled or copied: it holds a key")
