"""The command line: the only place that prints, and where clock and environment enter.

One file per command, imported only when it is asked for. A command returns its exit status:
0 fine, 1 content wrong, denied or mismatch, 2 wrong command line, 3 file missing or unreadable.
"""
