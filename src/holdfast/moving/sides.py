"""The two stores of a move."""

from typing import Protocol

from holdfast.stores.moving import MoveStore
from holdfast.stores.store import Store


class Side(Store, MoveStore, Protocol):
    """A store that jobs leave or come to."""
