"""Sandboxes as Linux namespaces, without an engine or root: programs of this machine, or of a folder.

What runs outside them is here; what runs in the namespaces themselves is in `inside`.
"""
