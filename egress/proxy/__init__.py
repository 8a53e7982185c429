"""The running proxy: the door, the lanes behind it, and the service around them."""
