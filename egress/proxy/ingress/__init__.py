"""Connections come in: listeners, identity, the requested destination, admission."""
