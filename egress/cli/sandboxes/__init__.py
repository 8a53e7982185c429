"""Commands that create sandboxes, run programs in them, and remove them."""
