"""What callers may do: the roles, and the one table that says which role each thing needs."""

from enum import Enum, IntEnum

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


class Permission(Enum):
    """What a caller does, in the words of the documentation, and the least role for it.

    The routes of the API and of the dashboard and the buttons on its pages take their roles from here, so that one
    thing needs the same role wherever it is done.
    """

    LOOK = "look at everything but the audit and tokens, with secrets covered", Role.VIEWER
    # Its lines hold no more of a job than its page: the arguments, with secrets covered.
    EXPORT_DEAD_LETTERS = "export dead letters", Role.VIEWER
    ENQUEUE_JOBS = "enqueue jobs", Role.OPERATOR
    CANCEL_JOBS = "cancel jobs", Role.OPERATOR
    RETRY_JOBS = "retry and replay jobs, also with other arguments", Role.OPERATOR
    RESCHEDULE_JOBS = "run jobs now or at another time, change their priority", Role.OPERATOR
    CHANGE_MANY_JOBS = "start, pause, resume and cancel bulk operations that do not delete", Role.OPERATOR
    PAUSE_QUEUES = "pause and resume queues", Role.OPERATOR
    CHANGE_SCHEDULES = "make, change, enable, disable, reset and run schedules", Role.OPERATOR
    SET_MAINTENANCE = "set and delete maintenance windows", Role.OPERATOR
    DRAIN_WORKERS = "drain workers", Role.OPERATOR
    ANSWER_ESCALATIONS = "acknowledge, snooze and test escalations", Role.OPERATOR
    SETTLE_BUDGETS = "settle what jobs took of budgets", Role.OPERATOR
    ENABLE_ENDPOINTS = "enable endpoints of webhooks", Role.OPERATOR
    DELETE_JOBS = "delete jobs and purge dead letters, also by bulk operations", Role.ADMIN
    DELETE_SCHEDULES = "delete schedules", Role.ADMIN
    PURGE_QUEUES = "purge queues", Role.ADMIN
    RELEASE_LOCKS = "release locks", Role.ADMIN
    CHANGE_SETTINGS = "change and reset settings, also of queues and budgets", Role.ADMIN
    READ_AUDIT = "read the audit", Role.ADMIN
    MANAGE_TOKENS = "list, make and revoke tokens", Role.ADMIN

    def __init__(self, words: str, role: Role) -> None:
        self.words = words
        self.role = role


def read_role(word: str) -> Role:
    """Read a role."""
    try:
        return Role[word.upper()]
    except KeyError:
        message = f"role: expected viewer, operator or admin, got {shown(word)}"
        raise InvalidValue(message) from None
