"""`egress k8s`: a module for each command."""

from egress.cli.kubernetes.group import k8s

__all__ = ["k8s"]
