"""TLS policy: contexts, verification, pins, sessions and roots. Nothing here knows mitmproxy."""
