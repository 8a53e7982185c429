"""The halves of each protocol keep the contract of the other side."""

from __future__ import annotations

from egress.relay.http1_downstream import Http1Downstream
from egress.relay.http2_downstream import Http2Downstream, Http2DownstreamHalf
from egress.relay.http2_upstream import Http2Upstream, Http2UpstreamHalf
from egress.relay.ports import DownstreamHalf, UpstreamHalf
from egress.relay.upstreams import Http1Upstream
from tests.unit.relay.wires import Lab, get


def test_every_half_can_stand_for_every_other() -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    (stream,) = lab.relay._live
    clients: list[DownstreamHalf] = [
        Http1Downstream(lab.relay, forward=False),
        Http2DownstreamHalf(Http2Downstream(lab.relay), 1, is_whole=True),
    ]
    upstreams: list[UpstreamHalf] = [
        Http1Upstream(lab.relay, 7),
        Http2UpstreamHalf(Http2Upstream(lab.relay, 8), 1, stream),
    ]
    assert len(clients) == len(upstreams) == 2
    assert [half.wire for half in upstreams] == [7, 8]
