"""`egress doctor`: check everything a proxy depends on, and report each problem with its cure.

A module for each group of checks. A check calls the same code as the proxy and reports its result; no
decision is made a second time. Nothing is changed or created, and no request is sent to an upstream. Checks
must not print, and no value of a secret may leave its source.
"""
