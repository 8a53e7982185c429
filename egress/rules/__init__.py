"""The rule language: compile texts to a policy, and decide by a policy. Pure.

`load` compiles texts; `decide` and `decide_host` give verdicts. Modules here open no file, read no clock
and resolve no secret.
"""
