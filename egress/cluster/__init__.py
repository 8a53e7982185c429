"""The client of a cluster's API server: it reads, and never writes."""
