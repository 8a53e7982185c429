"""An internet of the tests' own: rooms without a way out, hosts good and evil, and two proxies to attack."""
