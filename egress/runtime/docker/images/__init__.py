"""Builds the images of Egress: from the recipes in `container/`, or from this machine's own files."""
