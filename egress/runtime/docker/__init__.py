"""Sandboxes as containers of a local Docker engine. The only package that imports the Docker SDK."""
