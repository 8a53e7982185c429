"""Egress: the outbound layer for sandboxes.

The package root holds the pure core (`rules`, `credentials`, `http1`, `scrub`, `address`,
`exchange`) and the services around it. Importing `egress` loads none of them: `Sandbox`, `AsyncSandbox`,
`ExecResult`, `open_fleet` and the errors of sandboxes are loaded when they are first asked for.
"""

from egress.sandbox.late import attribute as __getattr__  # noqa: F401
from egress.sandbox.late import names as __dir__  # noqa: F401

__version__ = "0.1.0"
