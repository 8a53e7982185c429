"""The Model Context Protocol over HTTP: the messages of a client, its sessions, and the answers to it."""
