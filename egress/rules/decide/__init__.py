"""A policy decides on a host or a request."""
