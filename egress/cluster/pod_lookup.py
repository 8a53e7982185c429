"""One GET for a peer that no watch has told of: a pod that is seconds old, or nobody.

Whoever reaches the proxy can cause such a GET, so there are few at a time, few a second, and none for an
address that was asked for just before. Beyond that the answer is that nobody can tell now.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, urlencode

from egress.cluster.api_server import ClusterApi
from egress.cluster.streamed_get import ApiTimeouts, get
from egress.errors import ContentError, EgressError
from egress.kubernetes.watch_events import WatchedObject, WatchKind, read_address, read_list

MAX_AT_ONCE: Final = 4
PER_SECOND: Final = 10
BURST: Final = 20
REMEMBERED_SECONDS: Final = 2.0
"""An address that was asked for is not asked for again so soon."""
MAX_REMEMBERED: Final = 1024
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
LOOKUP_TIMEOUTS: Final = ApiTimeouts(connect=2.0, silence=2.0)


class PodLookup:
    """Asks the API server for the pods at an address."""

    def __init__(
        self,
        api: ClusterApi,
        found: Callable[[tuple[WatchedObject, ...]], None],
        monotonic: Callable[[], float],
    ) -> None:
        """`found` is told the pods that there are."""
        self._api = api
        self._found = found
        self._monotonic = monotonic
        self._running = asyncio.Semaphore(MAX_AT_ONCE)
        self._asked: OrderedDict[str, tuple[float, asyncio.Task[bool]]] = OrderedDict()
        self._free_at = float("-inf")

    async def ask(self, peer: str) -> bool:
        """Ask about an address; return whether the API server has answered for it by now."""
        try:
            address = str(read_address(peer))
        except ValueError:
            return True
        now = self._monotonic()
        while self._asked and next(iter(self._asked.values()))[0] <= now - REMEMBERED_SECONDS:
            self._asked.popitem(last=False)
        if address in self._asked:
            # Shielded: the client of one connection may leave while others wait for the same answer.
            return await asyncio.shield(self._asked[address][1])
        if len(self._asked) >= MAX_REMEMBERED or not self._may_ask(now):
            return False
        task = asyncio.get_running_loop().create_task(self._get(address))
        self._asked[address] = (now, task)
        return await asyncio.shield(task)

    def _may_ask(self, now: float) -> bool:
        waiting = (max(self._free_at, now) - now) * PER_SECOND
        # Half a question more than there may be: the times are no exact numbers.
        if waiting > BURST - 0.5:
            return False
        self._free_at = max(self._free_at, now) + 1 / PER_SECOND
        return True

    async def _get(self, address: str) -> bool:
        query = urlencode({"fieldSelector": f"status.podIP={address}"})
        path = f"/api/v1/namespaces/{quote(self._api.namespace, safe='')}/pods?{query}"
        data = bytearray()
        try:
            async with self._running, get(self._api, path, LOOKUP_TIMEOUTS) as body:
                async for piece in body:
                    data += piece
                    if len(data) > MAX_ANSWER_BYTES:
                        raise ContentError("an answer about one address is too long", "list the pods there")
            self._found(read_list(WatchKind.PODS, bytes(data)).objects)
        except (EgressError, OSError, asyncio.IncompleteReadError):
            return False
        return True
