"""Upstreams and clients on loopback that tests and benchmarks stand on; they know nothing of the proxy."""
