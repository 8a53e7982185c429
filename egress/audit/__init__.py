"""The audit log: what was tried, what became of it, and proof that nobody changed it since.

`Sink` writes, `verify.verify` checks. It must never hold a secret, a body or a header value, nor
of a query what no rule keeps, and must not know an event loop, a socket or the rules.
"""

from __future__ import annotations

from egress.lazy_names import lazy_names

# The names stand in `__init__.pyi`.
__getattr__ = lazy_names(__name__)
