"""The name server of a sandbox, which knows allowed names only."""
