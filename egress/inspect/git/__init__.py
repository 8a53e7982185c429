"""git over smart HTTP: requests of a fetch and a push, commands of a push, and the proof of its updates.

`endpoint` reads the head, `push_request` the commands of a push in lines of `pkt_line`, `fast_forward` the
commits that `pack_commits` finds in the pack. `refusal_report` writes a denial that git prints.
"""
