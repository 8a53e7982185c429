"""The answer of a handler on its way to the client: cleaned like the response of an upstream. Pure."""

from __future__ import annotations

from http import HTTPStatus

from egress.exchange import AnswerHead, AnswerRequest, CutExchange, Exchange
from egress.exchange.handler_call import BODILESS_STATUSES
from egress.relay.error_page import ErrorPage


def handler_answer(exchange: Exchange, step: AnswerRequest) -> ErrorPage | CutExchange:
    """Take an answer through all steps of a response; return it in one piece, or the cut."""
    head = exchange.respond(step.response)
    if isinstance(head, CutExchange):
        return head
    pieces = exchange.data(step.body) if step.body else []
    if isinstance(pieces, CutExchange):
        return pieces
    end = exchange.end()
    return end if isinstance(end, CutExchange) else _page(head, b"".join([*pieces, *end[0]]))


def _page(head: AnswerHead, body: bytes) -> ErrorPage:
    try:
        reason = HTTPStatus(head.status).phrase
    except ValueError:
        reason = ""
    length = () if head.status in BODILESS_STATUSES else (("content-length", str(len(body))),)
    return ErrorPage(head.status, reason, (*head.headers, *length), body)
