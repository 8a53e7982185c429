"""The Python handle of a sandbox: what a person's program holds, on any `Runtime`.

Nothing is imported here, so that importing `egress` stays light: the names come from `egress` itself, when
they are first asked for.
"""
