"""`egress log`: a module for each command."""

from egress.cli.log.group import log

__all__ = ["log"]
