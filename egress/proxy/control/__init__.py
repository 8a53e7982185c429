"""The control socket, rule reloads, revocation and sandboxes that come and go."""
