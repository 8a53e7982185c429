"""The server of the API: it takes the calls of `egress.api.operations` to a fleet.

The server belongs to the owner of the fleet. No sandbox gets a way to its socket, and nothing here decides
what a sandbox may reach.
"""
