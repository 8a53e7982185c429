"""Admitted connections go out: the intercept lane, the tunnel lane, dialling."""
