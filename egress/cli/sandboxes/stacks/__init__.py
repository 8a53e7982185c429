"""`egress doctor --image`: which stacks of an image trust the proxy, and are given a credential by it."""
