"""How much the scale runs do; the defaults are those that the published figures are for."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """All sizes; each is an option of the command line."""

    stores: tuple[str, ...] = ("postgres", "sqlite")
    rounds: int = 5
    concurrency: int = 200
    drain_jobs: int = 20_000

    claim_queued: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    claim_full: tuple[int, int, int] = (1_000_000, 1_000_000, 5_000_000)
    claim_samples: int = 2_000

    pinned_jobs: int = 200_000
    pinned_plain_jobs: int = 100_000
    pinned_rounds: int = 3

    rows: int = 10_000_000
    expired_rows: int = 1_000_000
    calls: int = 200

    staged_jobs: int = 3_000
    staged_at_once: int = 64
    watched_jobs: int = 20_000

    connections: tuple[int, ...] = (1, 8, 64)
    connection_jobs: int = 50_000
    connection_batch: int = 10
    connection_processes: int = 4

    delays_ms: tuple[float, ...] = (0.0, 1.0)
    one_jobs: int = 500
    many_jobs: int = 5_000
    feed_jobs: int = 1_000
    feed_rate: float = 100.0

    due_jobs: int = 10_000
    due_s: float = 10.0
    promoted_jobs: int = 100_000

    limited_jobs: int = 10_000
