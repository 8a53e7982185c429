"""`python -m egress` is `egress`.

Python puts the folder it is started in before its own modules, and that may be one a sandbox has written
to: nothing is imported from there. Only `egress` itself has been found by then; to have not even that
looked for there, start `egress`, or `python -P -m egress`.
"""

# No `from __future__` here: it is an import, and nothing may come before the folder is taken off.
import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]

    from egress.cli.main import main

    sys.exit(main())
