"""What the store's answers mean to the caller of a verb on one job."""

from holdfast import public_id
from holdfast.job import LIVE, Answer, JobState
from holdfast.resources.job_parts import JobAnswer
from holdfast.stores.values import Answered

_DONE = frozenset({Answer.DONE, Answer.REQUESTED})


def job_answer(verb: str, answered: Answered) -> JobAnswer:
    """Say what a verb did to a job, and why it was refused if it was."""
    is_deleted = verb == "delete" and answered.answer is Answer.DONE
    return JobAnswer(
        id=public_id.encode(answered.id),
        answer=answered.answer,
        state=None if is_deleted else answered.state,
        error=None
        if answered.answer in _DONE
        else f"{verb} {public_id.encode(answered.id)}: {_refusal(verb, answered)}",
        other=None if answered.other is None else public_id.encode(answered.other),
    )


def _refusal(verb: str, answered: Answered) -> str:
    match answered.answer:
        case Answer.NOT_FOUND:
            return "there is no such job, or its retention has ended"
        case Answer.UNIQUE_CLASH:
            other = "another job" if answered.other is None else f"job {public_id.encode(answered.other)}"
            return f"{other} is live and holds its unique key; wait for that one, or cancel it first"
        case Answer.EXPIRING:
            return "it is within a day of its deletion; enqueue a new job with its arguments instead"
        case _:
            return _wrong_state(verb, answered.state)


def _wrong_state(verb: str, state: JobState | None) -> str:
    now = "in another state" if state is None else f"{state}"
    live = state in LIVE
    if verb == "cancel":
        return f"it is {now} and has finished; there is nothing to cancel"
    if verb == "delete":
        return f"it is {now}; cancel it first, then delete it"
    if verb == "retry" and live:
        return f"it is {now} and will run by itself; there is nothing to retry"
    if verb == "retry":
        return f"it is {now}; only failed, cancelled and partly completed jobs are retried, enqueue a new one instead"
    return f"it is {now}; only a job that waits can change its place, {'cancel' if live else 'retry'} it instead"
