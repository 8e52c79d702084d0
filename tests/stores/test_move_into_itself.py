"""A store that holds nothing yet is not moved into itself either: it would be closed for good."""

import pytest

from holdfast.errors import Conflict
from holdfast.moving.move import Wishes, move
from tests.conftest import AnyStore
from tests.support.builders import enqueue


@pytest.mark.guards("move-into-itself")
async def test_an_empty_store_is_not_moved_into_itself(store: AnyStore) -> None:
    with pytest.raises(Conflict, match="very store"):
        await move(store, store, Wishes("postgresql://db/app", wait_s=0), lambda _step, _rows: None)
    assert await store.read_move() is None
    await enqueue(store)
