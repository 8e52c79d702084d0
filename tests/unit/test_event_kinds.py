"""How kinds of events are spelled in a store, and what becomes of those that only a later release knows."""

import pytest

from holdfast.events import EventType


@pytest.mark.parametrize("kind", EventType)
def test_a_kind_is_read_as_it_was_stored(kind: EventType) -> None:
    assert kind.stored.startswith("job:"), "what release 0.6 does not know it passes over, if it begins so"
    assert EventType(kind.stored) is EventType(kind.value) is kind


@pytest.mark.parametrize("spelled", ["job:later", "queue:later", "job:queue:later"])
def test_what_a_later_release_tells_is_something_else(spelled: str) -> None:
    assert EventType(spelled) is EventType.OTHER


@pytest.mark.parametrize("spelled", ["", "later", "JOB:STARTED", 7])
def test_anything_else_is_no_kind(spelled: str) -> None:
    with pytest.raises(ValueError, match="is not a valid EventType"):
        EventType(spelled)
