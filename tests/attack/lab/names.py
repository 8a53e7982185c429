"""Who is who in the lab: names, addresses, secrets, and the rules that say what is allowed.

Addresses look public, because the proxy under test has to believe that they are. Nothing of it leaves the
rooms of the lab.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

NAME_SERVER: Final = "45.0.0.53"
DOOR: Final = "127.0.0.9"
"""Where a proxy of the lab takes clients that know of none: TLS on 443, clear text on 80, names on 53."""

API: Final = "api.good.test"
"""Allowed, with a bearer secret."""
SCOPED: Final = "scoped.good.test"
"""Allowed for some methods and paths, with a secret of its own."""
OTHER: Final = "other.good.test"
"""Allowed, and no secret."""
SOCKETS: Final = "ws.good.test"
"""Allowed for WebSockets, with a secret."""
HTTP2: Final = "h2.good.test"
"""Speaks HTTP/2 alone; with a secret."""
KEYED: Final = "key.good.test"
"""Its secret goes into the header x-api-key."""
BASIC: Final = "basic.good.test"
"""Its secret is a password."""
QUERY: Final = "query.good.test"
"""Its secret goes into the query, as `key`."""
COOKIE: Final = "cookie.good.test"
"""Its secret goes into the cookie `session`."""
STANDIN: Final = "standin.good.test"
"""Its secret is swapped for a placeholder in the header x-api-key."""
BLOCKING: Final = "block.good.test"
"""Like the api, with `scrub: block`."""
PLAIN: Final = "plain.good.test"
"""Allowed in clear text, on port 80; no secret."""
FRONT: Final = "front.good.test"
"""Allowed, with a secret, behind an address that it shares with `BEHIND`."""
EXPIRED: Final = "expired.good.test"
WRONG_NAME: Final = "wrong-name.good.test"
SELF_SIGNED: Final = "self-signed.good.test"
UNKNOWN_CA: Final = "unknown-ca.good.test"
"""Four that are allowed, with the secret of the api, and cannot prove who they are."""
ANY: Final = "any.good.test"
"""`*.any.good.test` is allowed, with a secret; a case says where such a name leads."""
ANY_ADDRESS: Final = "45.10.2.1"

EVIL: Final = "evil.test"
"""The attacker's, and everything below: not allowed, with certificates that are good."""
BEHIND: Final = "behind.evil.test"
"""The attacker's, at the address of `FRONT`."""

CERTIFICATES_GONE_WRONG: Final = (EXPIRED, WRONG_NAME, SELF_SIGNED, UNKNOWN_CA)

ADDRESSES: Final = {
    API: "45.10.0.1",
    SCOPED: "45.10.0.2",
    OTHER: "45.10.0.3",
    SOCKETS: "45.10.0.4",
    HTTP2: "45.10.0.5",
    KEYED: "45.10.0.6",
    BASIC: "45.10.0.7",
    QUERY: "45.10.0.8",
    COOKIE: "45.10.0.9",
    STANDIN: "45.10.0.10",
    BLOCKING: "45.10.0.11",
    PLAIN: "45.10.0.12",
    FRONT: "45.10.3.1",
    EXPIRED: "45.10.1.1",
    WRONG_NAME: "45.10.1.2",
    SELF_SIGNED: "45.10.1.3",
    UNKNOWN_CA: "45.10.1.4",
    EVIL: "45.66.0.1",
    f"*.{EVIL}": "45.66.0.1",
    BEHIND: "45.10.3.1",
    f"*.{ANY}": ANY_ADDRESS,
}
ALLOWED: Final = {
    **{(address, 443): name for name, address in ADDRESSES.items() if not name.endswith(EVIL)},
    (ADDRESSES[PLAIN], 80): PLAIN,
}
"""Where a proxy that keeps the rules may connect to, and whose that is."""


def may_be_asked(name: str) -> bool:
    """Whether a proxy that keeps the rules may ask a name server for it."""
    if name in ADDRESSES:
        return not name.endswith(EVIL)
    # One label, as wildcards have it; some cases have one below these two, as well.
    above = name.partition(".")[2]
    return above in (ANY, f"unread.{ANY}", f"clear.{ANY}")


@dataclass(frozen=True, slots=True)
class Credential:
    """A secret and the hosts it is for."""

    name: str
    value: bytes
    hosts: tuple[str, ...]


def _value(kind: str) -> bytes:
    # With characters that every escaping touches, and long enough to be found in pieces.
    return f"{kind}_{secrets.token_hex(10)}/+=&<'%~{secrets.token_urlsafe(12)}".encode()


@dataclass(frozen=True, slots=True)
class Credentials:
    """The secrets of one lab; those of another one are others."""

    api: Credential = field(
        default_factory=lambda: Credential(
            "api", _value("sk-api"), (API, SOCKETS, HTTP2, BLOCKING, FRONT, *CERTIFICATES_GONE_WRONG)
        )
    )
    scoped: Credential = field(default_factory=lambda: Credential("scoped", _value("ghp"), (SCOPED,)))
    other: Credential = field(
        default_factory=lambda: Credential(
            "shapes", _value("key"), (KEYED, BASIC, QUERY, COOKIE, STANDIN, f"*.{ANY}")
        )
    )

    @property
    def all(self) -> tuple[Credential, ...]:
        return (self.api, self.scoped, self.other)

    def write(self, folder: Path) -> None:
        """One file a secret, for its owner's eyes."""
        folder.mkdir(mode=0o700, exist_ok=True)
        for credential in self.all:
            path = folder / credential.name
            path.touch(mode=0o600)
            path.write_bytes(credential.value)


def rules(credentials: Credentials, folder: Path) -> str:
    """The rules of the lab; the secrets are read from files in `folder`."""
    lines = ["version: 1", "secrets:"]
    for credential in credentials.all:
        hosts = ", ".join(f'"{host}"' for host in credential.hosts)
        lines.append(f'  {credential.name}: {{from: "file:{folder}/{credential.name}", hosts: [{hosts}]}}')
    bearers = (API, FRONT, *CERTIFICATES_GONE_WRONG)
    lines.append("hosts:")
    lines += [f"  {name}: {{allow: all, inject: [{{bearer: api}}]}}" for name in bearers]
    return "\n".join(lines) + _OTHER_RULES


_OTHER_RULES = f"""
  {BLOCKING}: {{allow: all, scrub: block, inject: [{{bearer: api}}]}}
  {HTTP2}: {{allow: all, http2: true, inject: [{{bearer: api}}]}}
  {SOCKETS}:
    allow:
      - {{id: pages, paths: ["/**"]}}
      - {{id: ws, methods: [GET], paths: [/ws], websocket: true}}
    inject: [{{bearer: api}}]
  {SCOPED}:
    allow:
      - {{id: read, methods: [GET, HEAD], paths: ["/repos/acme/**", "/echo*"]}}
      - {{id: issue, methods: [POST], paths: [/repos/acme/app/issues], content_type: [application/json]}}
    deny:
      - {{id: no-keys, paths: ["/repos/acme/*/keys/**"]}}
    inject: [{{bearer: scoped}}]
  {OTHER}: {{allow: all}}
  {PLAIN}: {{allow: all, http: true}}
  {KEYED}: {{allow: all, inject: [{{header: {{name: x-api-key, secret: shapes}}}}]}}
  {BASIC}: {{allow: all, inject: [{{basic: {{user: me, secret: shapes}}}}]}}
  {QUERY}: {{allow: all, inject: [{{query: {{name: key, secret: shapes}}}}]}}
  {COOKIE}: {{allow: all, inject: [{{cookie: {{name: session, secret: shapes}}}}]}}
  {STANDIN}:
    allow: all
    inject: [{{placeholder: {{secret: shapes, like: openai, in: ["header:x-api-key"]}}}}]
  "*.{ANY}": {{allow: all, inject: [{{bearer: shapes}}]}}
"""
