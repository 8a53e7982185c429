"""`egress doctor --image`: which HTTPS clients of an image trust the proxy and get a credential."""
