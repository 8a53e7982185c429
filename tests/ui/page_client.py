"""Somebody who opens the link and goes on from there: HTTP with a cookie, and nothing else of a browser."""

from __future__ import annotations

import html
import http.client
import re
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page, as it came."""

    status: int
    text: str

    def link(self, pattern: str) -> str:
        """The first link on it whose address, as it is, fits."""
        links = [html.unescape(link) for link in re.findall(r'href="([^"]*)"', self.text)]
        return next(link for link in links if re.search(pattern, link))

    @property
    def words(self) -> str:
        """What a person reads."""
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", self.text)).split())


class PageClient:
    """A visit, with the cookie that it was given."""

    def __init__(self, link: str) -> None:
        at = urlsplit(link)
        self.host, self.port = at.hostname or "", at.port or 0
        self._cookie = ""
        self.first = self.get(f"{at.path}?{at.query}")

    def get(self, address: str, host: str = "") -> FetchedPage:
        """Ask for a page; a redirection is followed, as browsers do."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            headers = {"Host": host or f"{self.host}:{self.port}"}
            connection.request(
                "GET", address, headers=headers | ({"Cookie": self._cookie} if self._cookie else {})
            )
            answer = connection.getresponse()
            body = answer.read().decode()
        finally:
            connection.close()
        self._cookie = (answer.getheader("Set-Cookie") or self._cookie).partition(";")[0]
        if answer.status == 303:
            return self.get(answer.getheader("Location") or "")
        return FetchedPage(answer.status, body)
