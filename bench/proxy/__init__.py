"""Proxies side by side: the same traffic through each, in one run, as multiples of stock mitmdump.

The figure is CPU microseconds of the proxy's whole process tree: it holds where wall time does not, on
small and shared machines and behind a load generator that is slower than the proxy. Only ratios within
one run are worth quoting.

- The upstream answers 401 without the injected Authorization, so every request that counts proves it.
- The proxy has core 0 to itself; load and upstream share core 1.
- Rounds alternate between the contestants, each freshly started; the median of the rounds is shown.
"""

from bench.proxy.compare import table

__all__ = ["table"]
