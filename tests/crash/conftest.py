"""What several crash tests share."""

from tests.crash.disks import disk
from tests.crash.stores import closed_store

__all__ = ["closed_store", "disk"]
