"""Egress: the outbound layer for sandboxes.

The package root holds the pure core (`rules`, `credentials`, `http1`, `scrub`, `address`,
`exchange`) and the services around it. Importing `egress` loads none of them: `Sandbox`, `AsyncSandbox`,
`ExecResult`, `open_fleet`, `open_remote` and the errors of sandboxes are loaded when they are first asked
for.
"""

# Nothing is imported here: `python -m egress` comes by before it has stopped looking in the folder it was
# started in. By its name, too: everybody may import this file, and nobody is to depend on the handle by that.
__getattr__ = lambda name: __import__("egress.lazy_names", fromlist=["lazy_names"]).lazy_names("egress")(name)  # noqa: E731, PLW0108
__dir__ = lambda: [*__import__("egress.lazy_names", fromlist=["homes"]).homes("egress"), "__version__"]  # noqa: E731
__version__ = "0.2.0"
