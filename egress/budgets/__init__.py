"""Budgets of model calls: what calls cost, and how much of a budget is left.

Pure: the clock and the journal are the caller's. Amounts are integers: tokens, and money in micro-cents, of
which a dollar has a hundred million.
"""
