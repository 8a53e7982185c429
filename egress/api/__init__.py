"""The API of a fleet: its schema, its operations, and their client. The server is `egress.api_server`."""
