"""What a sandbox feels of its neighbours: the p99 of its requests beside each of many hostile ones.

One proxy serves two sandboxes. The victim asks for a small answer now and then, over a connection that it
keeps and over a new one; its neighbour does its worst, in one way after the other. Each p99 is a multiple of
that of the same victim alone, measured right before; the memory is that of the proxy at its peak.

- The proxy has core 0 to itself. Everything else shares core 1, where the victim and its upstream come first:
  what the neighbour costs the machine is not counted, what it costs the proxy is. That takes root: without it
  the victim waits for the scheduler too.
- "busy" is the share of its time that the event loop worked: 1 where the neighbour wants all there is.
- "longest step" is processor time in ms: the longest that the loop worked before it looked at its sockets
  again, of 999 in 1,000 rounds; "collector" is the longest pause for garbage. On a machine that is not quiet
  they say more than any p99.

    python -m bench neighbours            all, about four minutes
    python -m bench neighbours --quick    less exact
    python -m bench.neighbours KIND ...   some
"""

from bench.neighbours.compare import table

__all__ = ["table"]
