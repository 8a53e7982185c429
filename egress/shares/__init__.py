"""The share that each sandbox has of the process: of its event loop, its memory and its descriptors."""
