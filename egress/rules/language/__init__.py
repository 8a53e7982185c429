"""The text of a rule file becomes a validated document."""
