"""Read rule files: text becomes a validated document."""
