"""The door of a sandbox: a tiny program in the sandbox's network, and its keeper outside.

The program opens sockets there and passes them out; it serves nobody itself, and holds no rule and no secret.
"""
