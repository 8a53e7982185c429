"""A page that is really served: its sockets, its guard, its threads."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from egress.ui import ChainWatch, IndexPool, LoginSession, RequestGuard, make
from egress.ui.listen import IDLE_TIMEOUT, config, listen_on_port
from tests.unit.ui.page_app import NOW, denied, line, rules, write

TOKEN = "a-token-of-some-length"


class ServedPage:
    """The page of a log, on a port of its own, in a thread of its own."""

    def __init__(self, folder: Path, app: ASGIApp | None = None, timeout: int = IDLE_TIMEOUT) -> None:
        self.folder = folder
        self.session = LoginSession(TOKEN)
        self._sock = listen_on_port("127.0.0.1", 0)
        self.root = f"http://127.0.0.1:{self._sock.getsockname()[1]}"
        self._server = uvicorn.Server(config(app or self._app(), timeout))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._sock]})

    def _app(self) -> ASGIApp:
        log = write(self.folder, [line(1), denied(2), line(3, host="docs.example.com", injected=[])])
        site = make(IndexPool(log), ChainWatch(()), [rules(self.folder)], lambda: NOW, is_watching=False)
        return RequestGuard(site, (), self.session)

    @property
    def link(self) -> str:
        return f"{self.root}/login?token={TOKEN}"

    def more(self, *lines: bytes) -> None:
        """Write further lines."""
        write(self.folder, lines)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        self._sock.close()
