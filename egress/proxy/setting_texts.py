"""Help texts of settings that commands take, too: one sentence each, the same everywhere.

Apart from the settings, whose model takes a while to load.
"""

from __future__ import annotations

from typing import Final

RULES: Final = "Rule files, or folders of them."
RULES_CONFIGMAP: Final = "Take the rules from `hosts.yaml` of this ConfigMap, and watch it."
AUTHORITY_FILE: Final = "A file with the key and certificate of the authority, such as a mounted secret."
RESOLVE: Final = "Dial this address for a name. The address checks still apply."
UPSTREAM_CA: Final = "Certificates of authorities to trust for upstreams, beside the public ones."
STATE_DIR: Final = "Where the audit log, the authority and the list of trusted files are kept."
RUNTIME_DIR: Final = "Where the control socket is."
HANDLERS: Final = "A Python file with the handlers that the rules name; it runs as the proxy's user."
AUDIT_DIR: Final = "Where the audit log is kept."
