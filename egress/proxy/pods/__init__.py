"""The pods of a cluster as sandboxes of one proxy."""
