"""Sources of secret values, and how long each value may be used.

All access goes through the resolver: it asks sources, keeps their values, and hands out `Secret`s. Modules
here never print, log, raise or reveal a value: revealing is for `credentials` and `scrub`.
"""

from __future__ import annotations

from egress.lazy_names import lazy_names

# The names stand in `__init__.pyi`.
__getattr__ = lazy_names(__name__)
