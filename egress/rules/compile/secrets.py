"""Compile `secrets:`: the source of each value and the hosts it is bound to. Never a value."""

from __future__ import annotations

import re
import shlex

from egress.rules.compile.single_rules import expires_of
from egress.rules.decide.policy import Binding, SecretSpec
from egress.rules.language import quantities
from egress.rules.language.credential_guess import looks_like_credential
from egress.rules.language.hosts import parse_host_pattern
from egress.rules.language.model import CommandSource, SecretItem
from egress.rules.language.report import DocumentCursor, did_you_mean, quoted

SCHEMES = {
    "env": "an environment variable of the proxy's own user",
    "file": "a file, read again after a change",
    "command": "the output of a program, run without a shell",
    "k8s": "one key of a Secret in the proxy's own namespace, read by the API of the cluster",
}
# Reserved for stores that a later version may read itself; until then each is an error with its cure.
RESERVED_SCHEMES = {
    "store": "keep the value in a file of your own, and name it with `file:`",
    "keyring": "use `{command: [secret-tool, lookup, ATTRIBUTE, VALUE]}`, or the tool of your keyring",
    "vault": "use `{command: [vault, kv, get, -field=FIELD, PATH]}`",
    "aws-sm": "use `{command: [aws, secretsmanager, get-secret-value, --secret-id, ID, ...]}`",
}

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_SCHEME = re.compile(r"([a-z][a-z0-9-]{1,15}):(.*)", re.DOTALL)
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_CLUSTER_SECRET = re.compile(r"([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)/([A-Za-z0-9._-]{1,253})")
_PORT = re.compile(r"(.*):([0-9]{1,5})")
_LITERAL_HINT = (
    "put the value into an environment variable or a file, name that here, and revoke the leaked value"
)

SourceReference = tuple[str, tuple[str, ...]]


def compile_secret(name: str, model: SecretItem, at: DocumentCursor) -> SecretSpec:
    """Compile a secret; report an unknown source, and a source that looks like the value itself."""
    if not NAME_PATTERN.fullmatch(name):
        at.key_error(
            f"{quoted(name)} is not a secret name",
            "names are lower case: a letter, then letters, digits, - and _",
        )
    scheme, reference = _source(model.source, at / "from")
    return SecretSpec(
        name=name,
        place=at.key_place,
        scheme=scheme,
        reference=reference,
        bindings=_bindings(model.hosts, at / "hosts"),
        ttl=(at / "ttl").parse(quantities.parse_duration, model.ttl),
        expires=expires_of(model.expires, at / "expires"),
    )


def _source(source: str | CommandSource, at: DocumentCursor) -> SourceReference:
    # Checked before anything else, so that no other message can quote the value.
    texts = source.command if isinstance(source, CommandSource) else [source]
    if any(looks_like_credential(text) for text in texts):
        at.error("this looks like a credential (not shown)", _LITERAL_HINT)
        return "", ()
    if isinstance(source, CommandSource):
        return "command", tuple(source.command)
    match = _SCHEME.fullmatch(source)
    if match is None:
        at.error(
            "a source is written SCHEME:REFERENCE", "for example env:GITHUB_TOKEN or file:/run/secrets/github"
        )
        return "", ()
    scheme, reference = match[1], match[2]
    if scheme in RESERVED_SCHEMES:
        at.error(f"`{scheme}:` is not resolved by this version", RESERVED_SCHEMES[scheme])
        return "", ()
    if scheme not in SCHEMES:
        at.error("unknown kind of source", did_you_mean(scheme, SCHEMES))
        return "", ()
    return scheme, _reference(scheme, reference, at)


def _reference(scheme: str, reference: str, at: DocumentCursor) -> tuple[str, ...]:
    if not reference.strip():
        at.error(f"`{scheme}:` needs a reference", f"{scheme}: is {SCHEMES[scheme]}")
        return ()
    if scheme == "env" and not _VARIABLE_NAME.fullmatch(reference):
        at.error(
            "this is not the name of an environment variable",
            "write env:NAME; never the value",
        )
    if scheme == "file" and not reference.startswith(("/", "~/")):
        at.error("a secret file needs an absolute path", "write file:/run/secrets/NAME or file:~/...")
    if scheme == "k8s":
        return _cluster_reference(reference, at)
    if scheme != "command":
        return (reference,)
    try:
        # Split as a shell does, and never run by one: no text can expand a variable or chain programs.
        return tuple(shlex.split(reference))
    except ValueError:
        at.error("unbalanced quotes in this command", "or write {command: [PROGRAM, ARGUMENT, ...]}")
        return ()


def _cluster_reference(reference: str, at: DocumentCursor) -> tuple[str, ...]:
    match = _CLUSTER_SECRET.fullmatch(reference)
    # A name with `..` would be another path of the API.
    if match is None or ".." in match[1] or match[2] in (".", ".."):
        at.error(
            "this is not the name of a Secret and of one of its keys",
            "write k8s:NAME/KEY; the Secret is in the namespace of the proxy",
        )
        return ()
    return match[1], match[2]


def _bindings(texts: list[str], at: DocumentCursor) -> tuple[Binding, ...]:
    if not texts:
        at.error("this secret is bound to no host, so it is never sent", "name the hosts that need it")
    bindings = []
    for number, text in enumerate(texts):
        # Only a trailing number is a port; host names contain no colon.
        match = _PORT.fullmatch(text)
        # No port means 443 alone: another port of the host may be a service that must not get the secret.
        name, port = (match[1], int(match[2])) if match else (text, 443)
        if not 1 <= port <= 65535:
            (at / number).error("a port is a number from 1 to 65535")
            continue
        pattern = (at / number).parse(parse_host_pattern, name)
        if pattern is not None:
            bindings.append(Binding(pattern, port))
    return tuple(bindings)
