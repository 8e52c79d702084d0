"""What several crash tests share."""

from tests.faults.store.stores import closed_store
from tests.support.disks import disk

__all__ = ["closed_store", "disk"]
