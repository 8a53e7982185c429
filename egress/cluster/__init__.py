"""The client of a cluster's API server: reads, watches, writes, commands and ports of pods."""
