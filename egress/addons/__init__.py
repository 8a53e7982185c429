"""What plugs into mitmproxy: layers and add-ons. Thin: nothing here decides what may pass.

mitmproxy carries TLS on both sides. Above it stands one layer of ours, `http`, that hands bytes to a
`Relay` and carries out its orders; the add-ons choose that layer and set the terms of TLS.
"""
