"""Take known secrets out of what an upstream answers.

`Needles` is built once for a set of secrets: every spelling of every secret, compiled for search.
`JoinedNeedles` is several of them.
`Scrubber` applies it to one stream; `Needles.mask` and `Needles.mask_text` to one whole value.
Nothing here decides whether to mask or to block: the caller reads `hits` and does as the rule says.

Stated limits. Scrubbing is the last net, not the control. It does not see a secret that comes back
reversed, in pieces (one byte per response, two ranges, two header lines), compressed, encrypted,
in an encoding other than those of `spellings`, in mixed upper and lower case hexadecimal digits,
or in base64 broken by line ends. What helps there is not to inject where an upstream reflects.
"""

from __future__ import annotations

from egress.scrub.needles import MASK_BYTE, MAX_HITS, JoinedNeedles, Masked, MaskedText, Needles, Scrubber
from egress.scrub.spellings import MIN_SECRET_BYTES, spellings

__all__ = [
    "MASK_BYTE",
    "MAX_HITS",
    "MIN_SECRET_BYTES",
    "JoinedNeedles",
    "Masked",
    "MaskedText",
    "Needles",
    "Scrubber",
    "spellings",
]
