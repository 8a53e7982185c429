"""Layers and add-ons that plug into mitmproxy. They are thin: no code here decides what may pass.

mitmproxy carries TLS on both sides. Above it stands a layer of ours, `http_layers`, that hands bytes to a
`Relay` and carries out its orders; the add-ons choose that layer and set the terms of TLS.
"""
