"""`egress doctor`: looks at all that a proxy depends on, and says what is wrong and how to put it right.

One file for each group of checks. What the proxy decides is not decided here a second time: a check calls
what the proxy calls, and tells what it says. Nothing is changed, nothing is made, and no request is sent to
an upstream. It must not print, and no value of a secret may leave the source it came from.
"""
