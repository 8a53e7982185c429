"""The rule language: text to policy, and the verdicts of a policy. Pure.

`load` compiles texts, `decide` and `decide_host` give verdicts. Nothing here opens a file, asks the
time or resolves a secret.
"""
