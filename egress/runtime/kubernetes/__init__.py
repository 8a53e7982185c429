"""Sandboxes as pods of a cluster, behind a gateway that runs there."""
