"""Rules with more in them than the usual ones: secrets of all kinds, every treatment, presets.

For files whose `egress` this is. It runs at the level `debug`, so whatever is tried there is S-72, too.
The naive proxy reads the secret of `own-NAME.any.good.test` from the file of this name.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.lab import Lab
from tests.attack.lab.leak_detector import leaks
from tests.attack.lab.names import ANY
from tests.attack.lab.proxies import Egress, Proxy

ARGUMENTS: Final = ("--log-level", "debug")


def _random(prefix: str, size: int = 16) -> bytes:
    return f"{prefix}_{secrets.token_hex(size)}".encode()


_FIRST: Final = secrets.token_hex(10).encode()
SECRETS: Final[dict[str, bytes]] = {
    "long": secrets.token_urlsafe(3072).encode(),
    "token": _random("tok"),
    "padded": secrets.token_bytes(9).hex().encode() + b"+/A+/b+/C/+d" + secrets.token_hex(6).encode() + b"==",
    "common": b"application",
    "framing": b"content-length",
    "first": _FIRST,
    "second": _FIRST + b"-and-" + secrets.token_hex(12).encode(),
    "third": _random("3rd"),
    "fleeting": _random("flt"),
    "rotated": _random("rot"),
    "github": _random("ghp", 18),
    "gitlab": _random("glpat"),
    "openai": _random("sk-proj", 20),
    "anthropic": _random("sk-ant", 20),
}
"""Secrets beside those of the lab, by the names that rules and files have for them."""


def own(name: str) -> str:
    """The host that a secret is injected into, as a bearer."""
    return f"own-{name}.{ANY}"


GITHUB: Final = {"api.github.com": "45.21.0.1", "github.com": "45.21.0.2", "codeload.github.com": "45.21.0.3"}
"""Hosts of a preset, and where they are in the lab."""
PLACES: Final = tuple((address, 443) for address in GITHUB.values())
GITLAB: Final = f"gitlab.{ANY}"
OPENAI: Final = f"openai.{ANY}"
STRICT: Final = {name: f"{name}.{ANY}" for name in ("fail-header", "fail-query", "fail-cookie", "fail-basic")}
"""Hosts at which a value in the slot refuses the request."""
WALL: Final = f"wall.{ANY}"
"""`scrub: block`, WebSockets included."""
COOKIES: Final = f"cookies.{ANY}"
"""`cookies: pass`."""
STAY, HERE, SIGNED = (f"{name}.{ANY}" for name in ("stay", "here", "signed"))
"""`redirects:` `deny`, `same-host` and `signed`."""
API_KEYS: Final = f"api-keys.{ANY}"
"""Its secret goes into the query, as `api_key`."""
STRIPPED: Final = f"stripped.{ANY}"
"""Its secret is a bearer, and every other slot of a credential is emptied."""

_BOUND: Final = {
    "github": ("api.github.com", "github.com"),
    "gitlab": (GITLAB,),
    "openai": (OPENAI,),
    "first": (own("first"), own("second")),
    "third": (own("third"), own("second")),
}
_OWN: Final = ("long", "token", "padded", "common", "framing", "first", "third", "fleeting", "rotated")


def _extra_secrets() -> str:
    lines = []
    for name in SECRETS:
        hosts = ", ".join(_BOUND.get(name, (own(name),)))
        ttl = ", ttl: 1" if name in ("fleeting", "rotated") else ""
        lines.append(f'  {name}: {{from: "file:{{secrets}}/{name}", hosts: [{hosts}]{ttl}}}\n')
    return "".join(lines)


_STRIPS: Final = '["header:x-api-key", "query:key", "cookie:session"]'


def _extra_hosts() -> str:
    shape = "inject: [{bearer: shapes}]"
    slots = {
        "fail-header": "header: {name: x-api-key, secret: shapes}",
        "fail-query": "query: {name: key, secret: shapes}",
        "fail-cookie": "cookie: {name: session, secret: shapes}",
        "fail-basic": "basic: {user: me, secret: shapes}",
    }
    second = "inject: [{bearer: first}, {header: {name: x-api-key, secret: second}}]"
    lines = [f"{own(name)}: {{allow: all, inject: [{{bearer: {name}}}]}}" for name in _OWN]
    lines += [
        f"{STRICT[name]}: {{allow: all, inject: [{{{slot}, on_existing: fail}}]}}"
        for name, slot in slots.items()
    ]
    lines += [
        f"{own('second')}: {{allow: all, {second}}}",
        f"{WALL}: {{allow: all, websocket: true, scrub: block, {shape}}}",
        f"{COOKIES}: {{allow: all, cookies: pass, {shape}}}",
        f"{STAY}: {{allow: all, redirects: deny, {shape}}}",
        f"{HERE}: {{allow: all, redirects: same-host, {shape}}}",
        f"{SIGNED}: {{allow: all, redirects: signed, {shape}}}",
        f"{STRIPPED}: {{allow: all, inject: [{{bearer: shapes, strip: {_STRIPS}}}]}}",
        f"{API_KEYS}: {{allow: all, inject: [{{query: {{name: api_key, secret: shapes}}}}]}}",
    ]
    return "".join(f"  {line}\n" for line in lines)


_PROJECTS: Final = 'read: ["acme/*"], write: [acme/app], api_read: ["acme%2Fapp"], api_write: ["acme%2Fapp"]'
_PRESETS: Final = f"""use:
  - github: {{read: ["acme/*"], write: [acme/app]}}
  - gitlab: {{host: {GITLAB}, {_PROJECTS}}}
  - openai: {{host: {OPENAI}}}
"""


def rules(lab: Lab) -> str:
    """The usual rules and all of the above."""
    text = lab.rules().replace("secrets:\n", "secrets:\n" + _extra_secrets(), 1)
    return text + _extra_hosts() + _PRESETS


def put_secrets(proxy: Proxy) -> None:
    """Write the files of all secrets, for either proxy."""
    folder = proxy.folder / "secrets"
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, value in SECRETS.items():
        put_secret(folder, name, value)


def put_secret(folder: Path, name: str, value: bytes) -> None:
    """Replace the file of a secret in one step."""
    new = folder / f"{name}.new"
    new.touch(mode=0o600)
    new.write_bytes(value)
    new.replace(folder / name)


def make(lab: Lab) -> Egress:
    """An Egress with all of it, not started yet."""
    places = [f"--resolve={name}={address}" for name, address in GITHUB.items()]
    proxy = lab.make_egress(rules(lab), *ARGUMENTS, *places)
    put_secrets(proxy)
    return proxy


def furnish(lab: Lab) -> None:
    """Let the hosts of the preset live in the lab, once."""
    for name, address in GITHUB.items():
        if name not in lab.internet.sites:
            lab.dns.set(name, address)
            lab.internet.sites[name] = lab.internet.move_in(name, address, lab.certs.good(name))


def must_not_show(proxy: Proxy, *names: str, forgiven: tuple[str, ...] = ()) -> None:
    """Raise the finding where the sandbox got one of these secrets to see."""
    wanted = [(name, SECRETS[name]) for name in names]
    for line in proxy.lines:
        for leak in leaks(bytes(line.received), wanted):
            if leak.promised and not set(leak.coats) & set(forgiven):
                raise Finding(Harm.LEAKED, str(leak))


def arm(proxy: Proxy) -> None:
    """Give the naive proxy the secrets that Egress was started with."""
    if proxy.name == "naive":
        put_secrets(proxy)
