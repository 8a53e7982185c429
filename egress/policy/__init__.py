"""The room of rule files: it finds and reads them, brings the shipped presets, and hands texts to `rules`.

What a rule means is settled in `egress.rules`. Nothing here resolves a secret or decides a request.
"""
