"""Guess whether a text looks like a credential.

Keeps credentials out of rule files and out of messages. In doubt the guess is yes for the shapes that
providers publish, and no for names, hosts and paths.
"""

from __future__ import annotations

import math
import re
from collections import Counter

_KNOWN_SHAPES = re.compile(
    r"""
    (?<![A-Za-z0-9])(?:
      gh[pousr]_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,}
    | gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_-]{16,}
    | sk-(?=[a-z_-]*[A-Z0-9])[A-Za-z0-9_-]{16,}
    | (?:AKIA|ASIA)[A-Z0-9]{16}
    | xox[abeoprs]-[A-Za-z0-9-]{10,} | xapp-[A-Za-z0-9-]{10,}
    | AIza[A-Za-z0-9_-]{30,} | ya29\.[A-Za-z0-9_-]{20,}
    | npm_[A-Za-z0-9]{30,} | pypi-[A-Za-z0-9_-]{30,} | dop_v1_[a-f0-9]{40,} | hf_[A-Za-z0-9]{30,}
    | (?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}
    | eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY
    )
    """,
    re.VERBOSE,
)
# No slash, or a path of words would count as one blob; AWS keys, which may hold one, have their own length.
_BLOB = re.compile(r"[A-Za-z0-9+=_-]{32,}")
# A `=` may precede the key, as in KEY=secret: base64 has `=` only at its end.
_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=_-])")
_HEX = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{32,}(?![0-9A-Za-z])")
# Bits per character. Names and hashes in words stay below; a key with slashes needs more, as paths mix too.
_MIN_ENTROPY = 3.6
_MIN_ENTROPY_WITH_SLASHES = 4.4


def looks_like_credential(text: str) -> bool:
    """Report whether the text contains the shape of a known credential or of a random key."""
    if len(text) < 16:
        return False
    if _KNOWN_SHAPES.search(text) or _HEX.search(text):
        return True
    return any(_is_random(blob, _MIN_ENTROPY) for blob in _BLOB.findall(text)) or any(
        _is_random(blob, _MIN_ENTROPY_WITH_SLASHES) for blob in _AWS_SECRET.findall(text)
    )


def _is_random(blob: str, least: float) -> bool:
    has_all_kinds = (
        any(c.isdigit() for c in blob) and any(c.isupper() for c in blob) and any(c.islower() for c in blob)
    )
    return has_all_kinds and _entropy(blob) >= least


def _entropy(text: str) -> float:
    """Return the Shannon entropy in bits per character."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())
