"""Sandboxes as Linux namespaces, without engine or root: programs of this machine, or of a root folder.

Modules here run outside of the sandbox; modules in `inside` run in its namespaces.
"""
