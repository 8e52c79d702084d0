"""Where a page of jobs ends, as text that goes into an address or onto a command line."""

from datetime import UTC, datetime

from holdfast import public_id
from holdfast.errors import InvalidValue, shown
from holdfast.stores.values import Cursor


def cursor_text(cursor: Cursor) -> str:
    """Write where a page ends."""
    at = cursor.enqueued_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return f"{at}/{public_id.encode(cursor.id)}"


def read_cursor(text: str, what: str = "after") -> Cursor:
    """Read where a page ended."""
    at, _, job = text.partition("/")
    try:
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is not None:
            return Cursor(moment.astimezone(UTC), public_id.decode(job))
    except (ValueError, OverflowError):  # InvalidValue is a ValueError
        pass
    message = f"{what}: expected the cursor that a page gave, got {shown(text)}"
    raise InvalidValue(message)
