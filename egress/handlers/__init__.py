"""Handlers: functions of the operator that are asked about requests. This is the whole of their interface.

    from egress.handlers import Allow, Answer, Context, Deny, Request, handler

    @handler
    async def no_drafts(request: Request, context: Context) -> Allow | Deny:
        return Deny("drafts stay here") if request.path.startswith("/drafts") else Allow()

The operator names the file with `egress serve --handlers FILE`. The rules say where a handler is called.
"""

from __future__ import annotations

from egress.handlers.interface import Allow, Answer, Context, Deny, Handler, Request, handler

__all__ = ["Allow", "Answer", "Context", "Deny", "Handler", "Request", "handler"]
