"""The sandboxes of one proxy: created once per name, removed in time, and shared with other processes.

The package knows the proxy by its sockets and as a program to start, and the sandboxes as a `Runtime`. It
must not decide what a sandbox may reach.
"""

from __future__ import annotations

from egress.lazy_names import lazy_names

# The names stand in `__init__.pyi`.
__getattr__ = lazy_names(__name__)
