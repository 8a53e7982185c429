"""HTTP between a client connection and its upstream connections: bytes and facts in, orders out. Pure."""
