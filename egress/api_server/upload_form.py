"""Reads a form with one file as it arrives: a strict part of `multipart/form-data`, in constant memory.

The form has exactly one part, a file with the name `file`. What another reader could take in another
way is refused: text around the part, further parts and fields, and a file name that holds an escape or a
backslash, which senders write in different ways.
"""

from __future__ import annotations

import re
from typing import Final

from egress.api_server.call import UnfitRequestError
from egress.runtime.spec import MIB

MAX_UPLOAD_BYTES: Final = 1024 * MIB
MAX_PART_HEAD_BYTES: Final = 16 * 1024
_TYPE: Final = re.compile(
    r"multipart/form-data; *boundary=(?P<quote>\"?)(?P<boundary>[0-9A-Za-z'()+_,./:=?-]{1,70})(?P=quote)",
    re.ASCII | re.IGNORECASE,
)
_DISPOSITION: Final = re.compile(r'form-data; name="file"; filename="(?P<name>[^"]{1,4096})"')
_FIELDS: Final = frozenset({"content-disposition", "content-type"})
_FORM_END: Final = b"--\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_ESCAPES: Final = re.compile(r"%22|%0[AaDd]|\\")
_CURE: Final = "send a form with one file named `file`, as the client of agent-sandbox does"


class UploadTooLargeError(UnfitRequestError):
    """The file of a form is larger than the server takes."""

    code = "request.too_large"


class UploadForm:
    """One form. Every method raises `UnfitRequestError` for one of another form."""

    def __init__(self, content_type: str, most: int = MAX_UPLOAD_BYTES) -> None:
        found = _TYPE.fullmatch(content_type)
        if found is None:
            raise UnfitRequestError("the body is not a form with a plain boundary", _CURE)
        self._opening = b"--%s\r\n" % found["boundary"].encode()
        self._closing = b"\r\n--%s" % found["boundary"].encode()
        self._most = most
        self._held = b""
        self._taken = 0
        self._is_over = False
        self.path: str | None = None
        """The name of the file, once its head has come."""

    def feed(self, data: bytes) -> bytes:
        """Read the next bytes of the body, and return what they hold of the file."""
        self._held += data
        if self.path is None and not self._read_head():
            return b""
        content = b"" if self._is_over else self._read_content()
        if self._is_over and len(self._held) > len(_FORM_END):
            raise _unfinished()
        return content

    def finish(self) -> None:
        """Take the end of the body."""
        if not self._is_over or self._held not in (b"--", _FORM_END):
            raise _unfinished()

    def _read_head(self) -> bool:
        # The opening line and the head are short: one without an end is refused before it fills the memory.
        head, end, rest = self._held.partition(_HEAD_END)
        if len(head) > MAX_PART_HEAD_BYTES:
            raise UnfitRequestError("the head of the part is too long", _CURE)
        begin = self._held[: len(self._opening)]
        if not self._opening.startswith(begin):
            raise UnfitRequestError("the form does not begin with its boundary", _CURE)
        if not end:
            return False
        self.path = _file_name(head[len(self._opening) :])
        self._held = rest
        return True

    def _read_content(self) -> bytes:
        content, end, rest = self._held.partition(self._closing)
        if end:
            self._is_over, self._held = True, rest
        else:
            # The last bytes may be the beginning of the boundary.
            place = max(0, len(self._held) - len(self._closing) + 1)
            content, self._held = self._held[:place], self._held[place:]
        self._taken += len(content)
        if self._taken > self._most:
            raise UploadTooLargeError(f"the file has more than {self._most} bytes", "send it in parts")
        return content


def _unfinished() -> UnfitRequestError:
    return UnfitRequestError("the form is not complete, or goes on behind its file", _CURE)


def _file_name(head: bytes) -> str:
    try:
        lines = head.decode("utf-8").split("\r\n")
    except UnicodeDecodeError:
        raise UnfitRequestError("the head of the part is not UTF-8", _CURE) from None
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(": ")
        if not colon or name.lower() not in _FIELDS or name.lower() in fields:
            raise UnfitRequestError("the part has a field that a file does not have", _CURE)
        fields[name.lower()] = value
    found = _DISPOSITION.fullmatch(fields.get("content-disposition", ""))
    if found is None:
        raise UnfitRequestError("the part is not a file named `file`", _CURE)
    return _plain_name(found["name"])


def _plain_name(name: str) -> str:
    if _ESCAPES.search(name):
        raise UnfitRequestError(
            "the name of the file holds an escape or a backslash, which can be read in two ways",
            "upload under another name, and rename it by a command",
        )
    if not name.isprintable():
        raise UnfitRequestError("the name of the file holds a control character", "use another name")
    return name
