"""The Hugging Face hub with one model: a small file, and a large one that lies in a store of its own."""

from __future__ import annotations

import hashlib
from typing import Final

from tests.tools.vendor_server import VendorCall

HOST: Final = "huggingface.co"
STORE: Final = "cdn-lfs-us-1.hf.co"
MODEL: Final = "acme/tiny"
LOGIN: Final = "agent"
SMALL: Final = b'{"model_type": "tiny"}\n'
LARGE: Final = bytes(range(256)) * 400
_COMMIT: Final = "a" * 40
_DIGEST: Final = hashlib.sha256(LARGE).hexdigest()
_STORED: Final = f"/repos/aa/bb/{_DIGEST}"
_TREE: Final = [
    {"type": "file", "path": "config.json", "size": len(SMALL), "oid": "b" * 40},
    {
        "type": "file",
        "path": "model.safetensors",
        "size": len(LARGE),
        "oid": "c" * 40,
        "lfs": {"oid": _DIGEST, "size": len(LARGE), "pointerSize": 134},
        "xetHash": _DIGEST,
    },
]


class HubApi:
    """Lets in whoever brings the token."""

    def __init__(self, token: str) -> None:
        self._wanted = f"Bearer {token}"

    def __call__(self, call: VendorCall) -> None:
        if call.header("authorization") != self._wanted:
            call.reply_json({"error": "Invalid credentials"}, 401)
        elif call.path == "/api/whoami-v2":
            call.reply_json({"type": "user", "name": LOGIN, "auth": {"type": "access_token"}})
        elif call.path.startswith(f"/api/models/{MODEL}/revision/") or call.path == f"/api/models/{MODEL}":
            files = [{"rfilename": "config.json"}, {"rfilename": "model.safetensors"}]
            call.reply_json(
                {"id": MODEL, "modelId": MODEL, "sha": _COMMIT, "siblings": files, "private": True}
            )
        elif call.path.startswith(f"/api/models/{MODEL}/tree/"):
            call.reply_json(_TREE)
        elif call.path.endswith("/config.json"):
            etag = hashlib.sha1(SMALL).hexdigest()
            call.reply(SMALL, more={"etag": f'"{etag}"', "x-repo-commit": _COMMIT})
        elif call.path.endswith("/model.safetensors"):
            self._large(call)
        else:
            call.reply_json({"error": call.path}, 404)

    def _large(self, call: VendorCall) -> None:
        """A large file is a link into a store, by either of two protocols: a client takes one of them."""
        token = f"https://{HOST}/api/models/{MODEL}/xet-read-token/{_COMMIT}"
        about = {
            "location": f"https://{STORE}{_STORED}?Signature=made-up",
            "etag": f'"{_DIGEST}"',
            "x-linked-etag": f'"{_DIGEST}"',
            "x-linked-size": str(len(LARGE)),
            "x-repo-commit": _COMMIT,
            "x-xet-hash": _DIGEST,
            "link": f'<{token}>; rel="xet-auth"',
        }
        call.reply(b"", "text/plain", 302, about)


def store(call: VendorCall) -> None:
    """The store: the link is the permission, and a token would be one too many."""
    if call.header("authorization"):
        call.reply(b"one too many\n", "text/plain", 400)
    elif call.path == _STORED:
        call.reply(LARGE, "application/octet-stream")
    else:
        call.reply(b"nothing here\n", "text/plain", 404)
