"""What the next page says of what was just done: a sentence, a page that tells more, a button that takes it back."""

from urllib.parse import quote, unquote

import msgspec

from holdfast.server.roles import Permission

COOKIE = "holdfast_said"
LASTS_S = 60
_MOST_TEXT = 300
_MOST = 3_500  # browsers keep no larger cookies
_UNDOING = {
    ("queues", "resume"): Permission.PAUSE_QUEUES,
    ("queues", "pause"): Permission.PAUSE_QUEUES,
    ("schedules", "enable"): Permission.CHANGE_SCHEDULES,
    ("schedules", "disable"): Permission.CHANGE_SCHEDULES,
    ("jobs", "retry"): Permission.RETRY_JOBS,
    ("jobs", "bulk"): Permission.CHANGE_MANY_JOBS,
}


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that travels in a cookie.

    `see` is a job that tells more. `undo` is the path that takes the deed back when it is posted to, with `jobs` if it
    was done to several. Anybody might put a cookie there, so only such deeds are offered as take one back.
    """

    text: str
    is_bad: bool = False
    see: str | None = None
    undo: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()

    @property
    def undone_by(self) -> Permission | None:
        """What a caller must be allowed to do to take it back; None if that cannot be done."""
        return _UNDOING.get((self.undo[0], self.undo[-1])) if len(self.undo) > 1 else None


def written(said: Said) -> str:
    """Write a message for its cookie; what is too long for one cannot be taken back."""
    short = msgspec.structs.replace(said, text=said.text[:_MOST_TEXT])
    text = quote(msgspec.json.encode(short))
    if len(text) <= _MOST:
        return text
    return quote(msgspec.json.encode(msgspec.structs.replace(short, undo=(), jobs=())))


def read(cookie: str | None) -> Said | None:
    """Read a message; what is none is not shown."""
    if cookie is None:
        return None
    try:
        found = msgspec.json.decode(unquote(cookie), type=Said)
    except (msgspec.DecodeError, RecursionError):
        return None
    return msgspec.structs.replace(found, text=found.text[:_MOST_TEXT])
