"""A validated document becomes a policy, with every mistake reported."""
