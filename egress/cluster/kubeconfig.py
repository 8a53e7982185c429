"""The kubeconfig of a person: which API server a context means, and how it knows that person.

Read are contexts with a token, a token file, a plugin that prints a token, or a client certificate, in files
or in the text. Refused are the settings that would turn off verification, and those of which this client
knows nothing: passwords, proxies and other identities. A setting that is skipped would mean another cluster,
or another right.
No error quotes more than names and paths: the file holds keys.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from egress.cluster.api_server import NAMESPACE_PATTERN, ClientCertificate, ClusterApi
from egress.cluster.exec_plugin import VERSIONS, ExecPlugin, PluginCommand, authority_text
from egress.errors import ContentError, UnreadableError, UsageError, reason_of
from egress.kubernetes.manifest_node import ManifestNode, path_text
from egress.kubernetes.manifest_text import read_manifests
from egress.rules.language.document import safe_excerpt

MAX_KUBECONFIG_BYTES: Final = 4 * 1024 * 1024
MAX_KUBECONFIGS: Final = 16
DEFAULT_NAMESPACE: Final = "default"
_HOST = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,252}|[0-9A-Fa-f:.]{2,45}")
_PREFIX = re.compile(r"(?:/[0-9A-Za-z._~-]{1,100}){0,10}")
_TOKEN_HINT: Final = "make a token with `kubectl create token`, and name it as `token` of the user"
_REFUSED: Final[dict[str, dict[str, str]]] = {
    "cluster": {
        "insecure-skip-tls-verify": "name the authority of the cluster as `certificate-authority-data`",
        "proxy-url": "reach the API server without a proxy, for example from a pod of the cluster",
    },
    "user": {
        "auth-provider": _TOKEN_HINT,
        "username": _TOKEN_HINT,
        "password": _TOKEN_HINT,
        "as": "give the rights to a service account, and use its token",
        "as-uid": "give the rights to a service account, and use its token",
        "as-groups": "give the rights to a service account, and use its token",
        "as-user-extra": "give the rights to a service account, and use its token",
    },
}
"""Settings that cannot be used, by the kind of their entry, with the cure of each."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry with a name, and the file that it stands in: paths in it are relative to that file."""

    file: Path
    node: ManifestNode

    def path_of(self, key: str) -> Path | None:
        found = self.node.at(key).text()
        return self.file.parent / found if found else None

    def data_of(self, key: str) -> bytes:
        """Return what a key holds in base64. Raises `ContentError`."""
        try:
            return base64.b64decode(self.node.at(key).text(), validate=True)
        except (binascii.Error, ValueError):
            raise ContentError(
                f"{self.file}: {path_text(self.node.path)}.{key} is no base64",
                "write it as `kubectl config` does",
            ) from None


def kubeconfig_paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the kubeconfigs that kubectl would read, as far as they exist."""
    named = [Path(each) for each in environ.get("KUBECONFIG", "").split(":") if each]
    home = environ.get("HOME", "")
    usual = [Path(home) / ".kube" / "config"] if home.startswith("/") and not named else []
    return tuple(path for path in (*named, *usual) if path.is_file())


def read_kubeconfig(
    paths: Sequence[Path], context: str = "", namespace: str = "", environ: Mapping[str, str] | None = None
) -> ClusterApi:
    """Return the API server of a context, or of the current one. Of two entries of one name the first counts.

    `environ` is for the plugin of a user.
    Raises `UnreadableError`, `ContentError` and `UsageError`, which name the file and the key.
    """
    if len(paths) > MAX_KUBECONFIGS:
        raise UsageError(f"more than {MAX_KUBECONFIGS} kubeconfigs", "name fewer of them in KUBECONFIG")
    files = [(path, _read(path)) for path in paths]
    name = context or next((text for _, root in files if (text := root.at("current-context").text())), "")
    if not name:
        raise UsageError("the kubeconfig has no current context", "name one: `kubectl config get-contexts`")
    chosen = _entry(files, "context", name)
    cluster = _entry(files, "cluster", chosen.node.at("cluster").text())
    # A context without a user is one that proves nothing, and would be answered 401.
    user = _entry(files, "user", chosen.node.at("user").text())
    place = namespace or chosen.node.at("namespace").text() or DEFAULT_NAMESPACE
    if not NAMESPACE_PATTERN.fullmatch(place):
        raise UsageError("the namespace is not a name", "use letters, digits and -")
    host, port, prefix = _server(cluster)
    found = ClusterApi(
        host,
        port,
        place,
        _either(cluster, "certificate-authority"),
        _token(user),
        _certificate(user),
        cluster.node.at("tls-server-name").text(),
        prefix,
        _plugin(user, cluster, environ or {}),
    )
    if not found.authority:
        raise ContentError(
            f"{cluster.file}: the cluster has no certificate-authority",
            "name the authority that signed the certificate of its API server",
        )
    # Values of a wrong type were skipped on the way here.
    for path, root in files:
        for fault in root.faults:
            raise ContentError(
                f"{path}: {path_text(fault.path)} is not what is expected: {fault.expected}",
                "write it as `kubectl config` does",
            )
    return found


def _read(path: Path) -> ManifestNode:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KUBECONFIG_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {reason_of(error)}", "check its rights") from None
    except UnicodeDecodeError:
        raise ContentError(f"{path} is not UTF-8", "write it as `kubectl config` does") from None
    if len(data) > MAX_KUBECONFIG_BYTES:
        raise ContentError(f"{path} has more than {MAX_KUBECONFIG_BYTES} bytes", "split it")
    manifest = read_manifests(str(path), text)
    for finding in manifest.findings:
        # The message may quote a word of the file, which may be a part of a key.
        raise ContentError(f"{finding.place}: this is no kubeconfig", finding.hint)
    if len(manifest.documents) != 1:
        raise ContentError(f"{path} is no kubeconfig", "write one document of YAML")
    root = ManifestNode(manifest.documents[0].value, (), [])
    if root.at("kind").text() != "Config" or root.at("apiVersion").text() != "v1":
        raise ContentError(f"{path} is no kubeconfig", "write `apiVersion: v1` and `kind: Config`")
    return root


def _entry(files: Sequence[tuple[Path, ManifestNode]], kind: str, name: str) -> _Entry:
    """Return the entry of a name. Raises `ContentError` if there is none, or one that cannot be used."""
    for path, root in files:
        for item in root.at(f"{kind}s").items():
            if name and item.at("name").text() == name:
                found = _Entry(path, item.at(kind))
                _refuse_unusable(found, kind)
                return found
    raise ContentError(
        f"{', '.join(str(path) for path, _ in files)}: no {kind} has the name `{safe_excerpt(name)}`",
        "see `kubectl config view`",
    )


def _refuse_unusable(entry: _Entry, kind: str) -> None:
    for key, cure in _REFUSED.get(kind, {}).items():
        node = entry.node.at(key)
        if not node.is_missing and node.value is not False:
            raise ContentError(f"{entry.file}: `{key}` of a {kind} cannot be used here", cure)


def _server(cluster: _Entry) -> tuple[str, int, str]:
    with suppress(ValueError):
        url = urlsplit(cluster.node.at("server").text())
        host, port, prefix = url.hostname or "", url.port or 443, url.path.rstrip("/")
        is_bare = not (url.query or url.fragment or url.username or url.password)
        if url.scheme == "https" and is_bare and _HOST.fullmatch(host) and _PREFIX.fullmatch(prefix):
            return host, port, prefix
    raise ContentError(
        f"{cluster.file}: the server of the cluster is no address of an API server",
        "write it like https://10.0.0.1:6443",
    )


def _either(entry: _Entry, key: str) -> Path | bytes:
    """Return what a key and its twin with `-data` name; data counts before a file, as for kubectl."""
    return entry.data_of(f"{key}-data") or entry.path_of(key) or b""


def _token(user: _Entry) -> Path | bytes:
    return user.path_of("tokenFile") or user.node.at("token").text().encode()


def _plugin(user: _Entry, cluster: _Entry, environ: Mapping[str, str]) -> ExecPlugin | None:
    node = user.node.at("exec")
    if node.is_missing:
        return None
    version, command = node.at("apiVersion").text(), node.at("command").text()
    if version not in VERSIONS or not command:
        raise ContentError(
            f"{user.file}: `exec` of a user has no command of {VERSIONS[0]}",
            "write it as the tool of your cloud does, or " + _TOKEN_HINT,
        )
    if node.at("interactiveMode").text() == "Always":
        raise ContentError(f"{user.file}: `exec` of a user asks for a terminal", _TOKEN_HINT)
    words = (command, *(each.text() for each in node.at("args").items()))
    variables = tuple((each.at("name").text(), each.at("value").text()) for each in node.at("env").items())
    if any("\0" in text or "=" in name for name, value in variables for text in (name, value)) or any(
        "\0" in each for each in words
    ):
        raise ContentError(f"{user.file}: `exec` of a user holds a NUL, or a name with `=`", _TOKEN_HINT)
    told: tuple[tuple[str, str], ...] = ()
    if node.at("provideClusterInfo").value is True:
        authority = authority_text(_either(cluster, "certificate-authority"))
        told = (("server", cluster.node.at("server").text()), ("certificate-authority-data", authority))
        if name := cluster.node.at("tls-server-name").text():
            told = (*told, ("tls-server-name", name))
    return ExecPlugin(PluginCommand(version, words, user.file.parent, variables, told), environ)


def _certificate(user: _Entry) -> ClientCertificate | None:
    chain, key = _either(user, "client-certificate"), _either(user, "client-key")
    if not chain and not key:
        return None
    if not chain or not key:
        raise ContentError(
            f"{user.file}: a client certificate needs its key, and a key its certificate",
            "name both `client-certificate` and `client-key`",
        )
    return ClientCertificate(chain, key)
