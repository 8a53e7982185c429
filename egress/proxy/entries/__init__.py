"""How a client names its destination: one file for each way, each ending in an `Asked` or a refusal."""
