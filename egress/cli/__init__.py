"""The command line: the only package that prints, and the entry point of clock and environment.

A module per command, imported only on use. A command returns its exit status: 0 fine, 1 wrong content, denied
or mismatch, 2 wrong command line, 3 missing or unreadable file.
"""
