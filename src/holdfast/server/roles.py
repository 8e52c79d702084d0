"""What people may do: look, act, or decide about others."""

from enum import IntEnum

from holdfast.errors import InvalidValue, shown


class Role(IntEnum):
    """Each may do what those below it may.

    A viewer looks. An operator acts on jobs, queues, schedules and escalations. An admin changes settings, tokens and
    what cannot be undone for many.
    """

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """Its name as people write it."""
        return self.name.lower()


def read_role(word: str) -> Role:
    """Read a role."""
    try:
        return Role[word.upper()]
    except KeyError:
        message = f"role: expected viewer, operator or admin, got {shown(word)}"
        raise InvalidValue(message) from None
