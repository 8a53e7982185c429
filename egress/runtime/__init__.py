"""Sandboxes: making them, running commands in them, and taking them away again.

A runtime knows the proxy by its sockets alone: what a sandbox may reach, and with which credential, is
decided there. Nothing here holds a secret, and only the certificate of an authority comes this way, never
its key.
"""
