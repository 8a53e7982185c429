"""Commands that make sandboxes, run something in them, and take them away."""
