"""What a proxy tells monitoring systems: metrics, spans and copies of the log's lines.

Nothing here can hold a secret, a query, a body or a header value. Only `otlp_client` opens a connection: to
the collector that the operator names, and to nothing that a sandbox asked for.
"""
