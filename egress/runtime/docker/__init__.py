"""Sandboxes as containers of a local Docker engine. The only room that knows the Docker SDK."""
