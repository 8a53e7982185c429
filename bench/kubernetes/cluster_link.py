"""The other end of the cluster's socket: orders out, news in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Self

from bench.kubernetes.setting import Gateway

type News = dict[str, Any]


class ClusterLink:
    """One client of the cluster."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, gateway: Gateway) -> Self:
        return cls(*await asyncio.open_unix_connection(gateway.cluster))

    async def order(self, what: str, told: Callable[[News], None] | None = None, **facts: object) -> News:
        """Have something happen, and return the last news of it; `told` gets those in between."""
        self._writer.write(json.dumps({"do": what, **facts}).encode() + b"\n")
        while line := await self._reader.readline():
            news: News = json.loads(line)
            if news["what"] == "done":
                return news
            if told:
                told(news)
        raise ConnectionError("the cluster has ended")

    def close(self) -> None:
        self._writer.close()
