"""Select the environment variables of a command: a short list, and never the value of an `env:` secret.

Theory of operation. No variable is passed on by default. Every command gets the variables that a program
needs to find its files, its agents, its trust store and its network, and the public settings of well-known
secret tools. Variables that hold credentials (`VAULT_TOKEN`, `BW_SESSION`) go only to their own program,
known by its file name: `vault` has no use for the key to another vault.

A wrapper script therefore gets no such variable; it has to read its key from the storage of its tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from egress.secrets.program_lookup import absolute_only, home_dir
from egress.secrets.source_value import SourceValue

# A pattern may end in `*` and has no other wildcard.
COMMON_VARIABLES = (
    "PATH HOME USER LOGNAME LANG LANGUAGE LC_* TZ TMPDIR XDG_*",
    # Agents that hold keys, and the display for their prompts
    "SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS GNUPGHOME DISPLAY WAYLAND_DISPLAY XAUTHORITY",
    # Proxies and trusted certificates
    "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy",
    "SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS",
    # Server, account or profile
    "VAULT_ADDR VAULT_NAMESPACE VAULT_CACERT VAULT_CAPATH BAO_ADDR BAO_NAMESPACE BAO_CACERT",
    "AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE AWS_CA_BUNDLE",
    "CLOUDSDK_CONFIG CLOUDSDK_ACTIVE_CONFIG_NAME CLOUDSDK_CORE_ACCOUNT CLOUDSDK_CORE_PROJECT",
    "GOOGLE_APPLICATION_CREDENTIALS GOOGLE_CLOUD_PROJECT AZURE_CONFIG_DIR KUBECONFIG",
    "OP_ACCOUNT OP_CONNECT_HOST GH_HOST GH_CONFIG_DIR BITWARDENCLI_APPDATA_DIR",
    "PASSWORD_STORE_DIR SOPS_AGE_KEY_FILE SOPS_GPG_EXEC FNOX_PROFILE FNOX_AGE_KEY_FILE",
)

PROGRAM_VARIABLES = {
    "aws": "AWS_*",
    "az": "AZURE_*",
    "bao": "BAO_* VAULT_*",
    "bw": "BW_* BITWARDENCLI_*",
    "bws": "BWS_*",
    "doppler": "DOPPLER_*",
    "fnox": "FNOX_* OP_* VAULT_* AWS_* GOOGLE_* AZURE_*",
    "gcloud": "CLOUDSDK_* GOOGLE_*",
    "gh": "GH_* GITHUB_TOKEN",
    "glab": "GITLAB_*",
    "gopass": "GOPASS_* PASSWORD_STORE_*",
    "infisical": "INFISICAL_*",
    "op": "OP_*",
    "pass": "PASSWORD_STORE_*",
    "sops": "SOPS_* AWS_* GOOGLE_* AZURE_* VAULT_*",
    "vault": "VAULT_*",
}
"""Additional variables of a program, by its file name."""

_COMMON_PATTERNS = tuple(" ".join(COMMON_VARIABLES).split())


class ChildEnvironment:
    """Decides which variables of the process environment a command may get."""

    __slots__ = ("_environ", "_hidden", "_values")

    def __init__(self, environ: Mapping[str, str], values: Iterable[SourceValue] = ()) -> None:
        """`values` are the values of `env:` secrets: a variable that holds one is never passed on."""
        self._environ = environ
        self._values = tuple(values)
        self._hidden: set[str] = set()

    def hide(self, name: str) -> None:
        """Never pass this variable on: the rules name it as a secret."""
        self._hidden.add(name)

    def of(self, program: str) -> dict[str, str]:
        """Return the environment for a program, given by its file name."""
        patterns = _COMMON_PATTERNS + tuple(PROGRAM_VARIABLES.get(program, "").split())
        return {
            name: absolute_only(text) if name == "PATH" else text
            for name, text in self._environ.items()
            if any(fnmatchcase(name, pattern) for pattern in patterns) and self._may_pass(name, text)
        }

    @property
    def home(self) -> str:
        """Folder in which a command runs: the home of the user, or the root if it is unknown."""
        return home_dir(self._environ)

    def _may_pass(self, name: str, text: str) -> bool:
        # Compared by value as well: a secret is often exported under a second name.
        return name not in self._hidden and not any(value.occurs_in(text) for value in self._values)
