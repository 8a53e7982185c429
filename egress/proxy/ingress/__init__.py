"""ingress."""
