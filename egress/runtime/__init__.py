"""Sandboxes: creates them, runs commands in them, and removes them.

A runtime knows the proxy by its sockets alone: the proxy decides which hosts a sandbox may reach, and with
which credential. This package must not hold a secret; of an authority it gets the certificate, never the key.
"""
