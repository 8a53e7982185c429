"""Rule files: find and read them, add the bundled presets, and pass their texts to `rules`.

The meaning of a rule is up to `egress.rules`. Modules here resolve no secret and decide no request.
"""
