"""Egress: the outbound layer for sandboxes.

The package root holds the pure core (`rules`, `credentials`, `http1`, `scrub`, `address`,
`exchange`) and the services around it. Importing `egress` loads none of them: `Sandbox`, `AsyncSandbox`,
`ExecResult`, `open_fleet` and the errors of sandboxes are loaded when they are first asked for.
"""

import importlib

__version__ = "0.1.0"

# By its name: everybody may import this file, and nobody below is to depend on the handle by that.
_late = importlib.import_module("egress.sandbox.late")
__getattr__ = _late.attribute
__dir__ = _late.names
