"""Certificate authorities: keys, certificates, and the bundles that clients and the proxy trust.

Must not know mitmproxy or OpenSSL contexts.
"""

from __future__ import annotations

from egress.lazy_names import lazy_names

# The names stand in `__init__.pyi`.
__getattr__ = lazy_names(__name__)
