"""One module per contestant; each runs in an environment of its own, and needs nothing but that library there."""
