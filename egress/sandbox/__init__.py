"""The Python API of a sandbox: `Sandbox` and its parts, on any `Runtime`.

This file imports nothing, so that `import egress` stays fast: `egress` loads each name at its first use.
"""
