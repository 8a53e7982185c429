"""Makes the images of the product: out of the recipes in `container/`, or out of this machine's own files."""
