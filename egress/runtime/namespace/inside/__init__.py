"""What runs in the namespaces of a sandbox: processes of their own, which must start at once.

So nothing is imported here but the standard library, each other, and the program of the door.
"""
