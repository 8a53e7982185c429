"""Programs that run in a sandbox's namespaces, in processes that have to start fast.

Imports are limited to the standard library, this package, and the door's program.
"""
