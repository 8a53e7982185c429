"""Kubernetes manifests, checked and completed, and which sandbox stands behind the address of a pod."""
