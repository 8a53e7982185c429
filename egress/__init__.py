"""Egress: the outbound layer for sandboxes.

The package root holds the pure core (`rules`, `credentials`, `http1`, `scrub`, `address`,
`exchange`) and the services around it. Importing `egress` loads none of them.
"""

__version__ = "0.1.0"
