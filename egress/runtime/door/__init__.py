"""The door of a sandbox: a tiny program in the sandbox's network, and its controller outside.

The program opens sockets there and passes them out; it serves no client itself, and holds no rule and no
secret.
"""
