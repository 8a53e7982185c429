"""`python -m bench.neighbours KIND ...`: measure some kinds."""

import sys

from bench.neighbours.compare import table

if __name__ == "__main__":
    print(table(quick="--quick" in sys.argv, kinds=[word for word in sys.argv[1:] if word[:2] != "--"]))
