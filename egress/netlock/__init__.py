"""The lock of a pod's network: whoever is not the proxy reaches the proxy, and nothing else."""
