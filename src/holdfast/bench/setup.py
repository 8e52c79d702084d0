"""What the bench tells its workers: where everything is."""

import msgspec

from holdfast.app_options import Synchronous

SETUP = "HOLDFAST_BENCH_SETUP"
"""The environment variable in which it travels, because it may hold a password."""

DEADLINE_S = 30.0  # twenty thousand jobs are one call, and a slow server may need a while for it


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The store, and the ledger in which runs are recorded."""

    url: str = "sqlite://"
    schema: str = "holdfast"
    synchronous: Synchronous = "full"
    pool_size: int = 5
    ledger: str | None = None
