"""Decide on a host or a request by a compiled policy."""
