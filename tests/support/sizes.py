"""How much a test does: `make test` runs every test at about a tenth of what `make chaos` runs."""

import os

CHAOS = os.environ.get("HOLDFAST_CHAOS") == "1"


def size(every_commit: int, chaos: int) -> int:
    """Choose a size."""
    return chaos if CHAOS else every_commit
