"""Reviewing the audit log: finding lines, adding them up, proving them, and letting go of old ones.

It reads the lines that `egress.audit` writes and never changes one. It knows no screen and no proxy.
"""

from __future__ import annotations

from egress.lazy_names import lazy_names

# The names stand in `__init__.pyi`.
__getattr__ = lazy_names(__name__)
