"""What the store's answers mean to the caller of a verb on one job."""

from holdfast import public_id
from holdfast.errors import JobNotFound, StoreError, UniqueConflict, WrongState
from holdfast.job import LIVE, JobState
from holdfast.stores.values import Answer, Answered


def state_after(verb: str, answered: Answered) -> JobState:
    """Return the state the job is in now, or raise why the verb was refused."""
    require_done(verb, answered)
    if answered.state is None:
        message = f"{verb} {public_id.encode(answered.id)}: the store named no state after it"
        raise StoreError(message)
    return answered.state


def require_done(verb: str, answered: Answered) -> None:
    """Raise why a verb was refused, if it was."""
    shown = public_id.encode(answered.id)
    if answered.answer is Answer.NOT_FOUND:
        message = f"{verb} {shown}: there is no such job, or its retention has ended"
        raise JobNotFound(message)
    if answered.answer is Answer.UNIQUE_CLASH:
        other = "another job" if answered.other is None else f"job {public_id.encode(answered.other)}"
        message = f"{verb} {shown}: {other} is live and holds its unique key; wait for that one, or cancel it first"
        raise UniqueConflict(message, answered.other)
    if answered.answer is Answer.EXPIRING:
        message = f"{verb} {shown}: it is within a day of its deletion; enqueue a new job with its arguments instead"
        raise WrongState(message)
    if answered.answer is Answer.WRONG_STATE:
        message = f"{verb} {shown}: {_wrong_state(verb, answered.state)}"
        raise WrongState(message)


def _wrong_state(verb: str, state: JobState | None) -> str:
    now = "in another state" if state is None else f"{state}"
    live = state in LIVE
    if verb == "cancel":
        return f"it is {now} and has ended; there is nothing to cancel"
    if verb == "delete":
        return f"it is {now}; cancel it first, then delete it"
    if verb == "retry" and live:
        return f"it is {now} and will run by itself; there is nothing to retry"
    if verb == "retry":
        return f"it is {now}; only failed, cancelled and partly completed jobs are retried, enqueue a new one instead"
    return f"it is {now}; only a job that waits can change its place, {'cancel' if live else 'retry'} it instead"
