"""Compile `canaries:`: names, shapes and places of values to plant. Values are never in a file.

Theory of operation. A canary must not replace anything a sandbox uses: variables that a sandbox needs to
work, and files of the system or of the proxy's certificates, are refused here. Facts that only a sandbox
knows, such as whether its user may write a folder, are checked when it is created.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from egress.rules.compile.secrets import NAME_PATTERN
from egress.rules.decide.policy import CANARY_VALUE_MARK, CanarySpec
from egress.rules.language.credential_guess import looks_like_credential
from egress.rules.language.model import CanaryItem
from egress.rules.language.report import DocumentCursor, quoted

MAX_TEXT_CHARS = 16 * 1024
"""Characters a planted file may hold."""
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_MAX_PATH_CHARS = 1024
_MAX_PATH_PART_BYTES = 255

RESERVED_VARIABLES = frozenset(
    {
        # Identity and location of a process, its program search path, its locale and time zone.
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "IFS", "ENV"),
        *("BASH_ENV", "_", "TMPDIR", "TMP", "TEMP", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM"),
        # Proxy settings.
        *("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "WSS_PROXY"),
        *("wss_proxy", "WS_PROXY", "ws_proxy", "NO_PROXY", "no_proxy", "YARN_HTTPS_PROXY"),
        *("YARN_HTTP_PROXY", "NODE_USE_ENV_PROXY", "PERL_LWP_ENV_PROXY"),
        # Trusted certificates.
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT"),
        *("GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "npm_config_cafile", "PERL_LWP_SSL_CA_FILE"),
        *("AWS_CA_BUNDLE", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
        *("HTTPLIB2_CA_CERTS", "NIX_SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "DENO_CERT", "WGETRC"),
        *("APT_CONFIG", "PHP_INI_SCAN_DIR", "JAVA_TOOL_OPTIONS"),
    }
)
"""Variables that a sandbox needs for another purpose. `LD_` is refused as a whole."""
_RESERVED_FOLDERS = ("/proc", "/sys", "/dev", "/run", "/etc/egress", "/.egress")


def compile_canary(name: str, model: CanaryItem, at: DocumentCursor) -> CanarySpec:
    """Compile a canary; report an invalid name, and a place that cannot be used."""
    if not NAME_PATTERN.fullmatch(name):
        at.key_error(
            f"{quoted(name)} is not the name of a canary",
            "names are lower case: a letter, then letters, digits, - and _",
        )
    if model.env is not None:
        _check_variable(model.env, at / "env")
    if model.file is not None:
        _check_file(model.file, at / "file")
    if model.text is not None:
        _check_text(model.text, at / "text", has_file=model.file is not None)
    return CanarySpec(
        name,
        at.key_place,
        model.like,
        model.stop,
        model.env or "",
        model.file or "",
        CANARY_VALUE_MARK if model.text is None else model.text,
    )


@dataclass(slots=True)
class PlantedPlaces:
    """Places already planted, over all files: two canaries in one place would overwrite each other."""

    _variables: dict[str, CanarySpec] = field(default_factory=dict)
    _files: dict[str, CanarySpec] = field(default_factory=dict)

    def claim(self, canary: CanarySpec, at: DocumentCursor) -> None:
        """Note the places of a canary; report a place that another canary has."""
        if canary.env:
            first = self._variables.setdefault(canary.env, canary)
            if first is not canary:
                self._taken(first, "choose another variable", at / "env")
        if canary.file:
            # A file cannot be planted inside another planted file, so folders count as taken, too.
            for path, first in self._files.items():
                if _is_within(path, canary.file) or _is_within(canary.file, path):
                    self._taken(first, "choose another file", at / "file")
                    return
            self._files[canary.file] = canary

    def _taken(self, first: CanarySpec, cure: str, at: DocumentCursor) -> None:
        at.error(f"the canary {quoted(first.name)} is already planted there (at {first.place})", cure)


def _check_variable(name: str, at: DocumentCursor) -> None:
    if looks_like_credential(name):
        at.error("this looks like a credential (not shown)", "write the name of a variable")
    elif not _VARIABLE_NAME.fullmatch(name):
        at.error(
            f"{quoted(name)} is not the name of a variable",
            "use letters, digits and _, without a leading digit, such as AWS_ACCESS_KEY_ID",
        )
    elif name in RESERVED_VARIABLES or name.startswith("LD_"):
        at.error(
            f"{quoted(name)} is a variable that sandboxes need themselves",
            "choose a variable only a search for keys would read",
        )


def _check_file(path: str, at: DocumentCursor) -> None:
    if looks_like_credential(path):
        at.error("this looks like a credential (not shown)", "write the path of a file")
        return
    parts = path.split("/")
    is_whole = (
        parts[0] in ("", "~") and len(parts) > 1 and path.isprintable() and len(path) <= _MAX_PATH_CHARS
    )
    if not is_whole or any(part in ("", ".", "..") for part in parts[1:]) or _is_too_long(parts):
        at.error(
            f"{quoted(path)} is not a file in a sandbox",
            "write an absolute path, or one below ~/, without `.` and `..`, such as ~/.config/deploy-token",
        )
    elif any(_is_within(path, place) for place in _RESERVED_FOLDERS):
        at.error(
            f"a canary cannot be planted at {quoted(path)}", "plant it in the home folder, such as ~/.netrc"
        )


def _is_too_long(parts: list[str]) -> bool:
    return any(len(part.encode("utf-8", "surrogatepass")) > _MAX_PATH_PART_BYTES for part in parts)


def _check_text(text: str, at: DocumentCursor, *, has_file: bool) -> None:
    if not has_file:
        at.error(
            "`text` is the content of a planted file, but `file` is missing", "add `file`, or remove `text`"
        )
    if looks_like_credential(text):
        at.error(
            "this looks like a credential (not shown)", f"write {CANARY_VALUE_MARK} in place of the value"
        )
    elif text.count(CANARY_VALUE_MARK) != 1:
        at.error(f"`text` needs `{CANARY_VALUE_MARK}` exactly once", "write it in place of the value")
    elif len(text) > MAX_TEXT_CHARS or any(not c.isprintable() and c not in "\n\t" for c in text):
        at.error(
            f"`text` is longer than {MAX_TEXT_CHARS} characters, or contains control characters",
            "use plain text",
        )


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
