"""The table of legal moves, and the moves of a running job as values."""

import itertools

import pytest

from holdfast.events import EventType
from holdfast.failure import from_text
from holdfast.job import LIVE, RETRYABLE, TERMINAL, WAITING, JobState
from holdfast.transitions import (
    MOVES,
    Move,
    Transition,
    Verb,
    cancelled,
    completed,
    crashed,
    failed,
    interrupted,
    is_legal,
    retried,
    snoozed,
    throttled,
)

FAILURE = from_text("E", "why")
MADE = [
    completed(1, 2, "3"),
    completed(1, 2, "3", with_errors=True),
    failed(1, 2, FAILURE),
    retried(1, 2, FAILURE, 0),
    retried(1, 2, FAILURE, 5),
    snoozed(1, 2, 0),
    snoozed(1, 2, 5),
    throttled(1, 2, 0),
    throttled(1, 2, 5),
    interrupted(1, 2),
    crashed(1, 2, FAILURE),
    cancelled(1, 2),
]


def move(verb: str) -> Move:
    (found,) = [move for move in MOVES if move.verb == verb]
    return found


def test_every_verb_of_a_running_job_stands_in_the_table_once() -> None:
    verbs = [move.verb for move in MOVES]
    assert [verbs.count(verb) for verb in Verb] == [1] * len(Verb)


@pytest.mark.parametrize("verb", Verb)
def test_every_verb_of_a_running_job_starts_from_running(verb: Verb) -> None:
    assert JobState.RUNNING in move(verb).sources


def test_no_move_is_empty_and_every_state_can_be_reached_and_left() -> None:
    assert all(move.sources and move.targets for move in MOVES)
    reached = {target for move in MOVES for target in move.targets}
    left = {source for move in MOVES for source in move.sources}
    assert reached == left == {*JobState, None}


def test_what_has_ended_only_lives_again_or_is_deleted() -> None:
    for source, target in itertools.product(TERMINAL, [*JobState, None]):
        expected = target is None or (target is JobState.QUEUED and source in RETRYABLE)
        assert is_legal(source, target) == expected, (source, target)


def test_only_queued_jobs_begin_to_run() -> None:
    assert {source for source in [*JobState, None] if is_legal(source, JobState.RUNNING)} == {JobState.QUEUED}


def test_a_live_job_never_vanishes_and_a_new_one_always_waits() -> None:
    assert not any(is_legal(source, None) for source in LIVE)
    assert {target for target in JobState if is_legal(None, target)} == WAITING


def test_only_a_running_job_completes_or_fails() -> None:
    for target in (JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS, JobState.FAILED):
        assert {source for source in [*JobState, None] if is_legal(source, target)} == {JobState.RUNNING}


def test_every_live_job_can_be_cancelled_and_no_other() -> None:
    assert {source for source in [*JobState, None] if is_legal(source, JobState.CANCELLED)} == LIVE


@pytest.mark.parametrize("verb", [Verb.RETRY, Verb.SNOOZE, Verb.INTERRUPT, Verb.CRASH])
def test_every_move_that_waits_again_can_end_cancelled(verb: Verb) -> None:
    assert JobState.CANCELLED in move(verb).targets


def test_the_events_of_moves_that_only_end_a_life_are_the_terminal_ones() -> None:
    terminal = {EventType.COMPLETED, EventType.FAILED, EventType.CANCELLED}
    ends = {move.event for move in MOVES if move.targets <= TERMINAL}
    assert ends == terminal
    assert not any(move.event in terminal for move in MOVES if not move.targets <= TERMINAL)


@pytest.mark.parametrize("made", MADE, ids=lambda made: f"{made.verb}-{made.state}")
def test_what_is_made_stands_in_the_table(made: Transition) -> None:
    assert (made.id, made.claim) == (1, 2)
    assert made.state in move(made.verb).targets


def test_every_verb_can_be_made() -> None:
    assert {made.verb for made in MADE} == set(Verb)


@pytest.mark.parametrize("delay_ms, state", [(0, JobState.QUEUED), (1, JobState.SCHEDULED)])
def test_a_delay_decides_whether_a_job_is_scheduled(delay_ms: int, state: JobState) -> None:
    assert retried(1, 2, FAILURE, delay_ms).state is state
    assert snoozed(1, 2, delay_ms).state is state


def test_what_a_transition_carries() -> None:
    done = completed(1, 2, "3", started_ago_ms=4)
    assert (done.result, done.started_ago_ms, done.failure, done.delay_ms) == ("3", 4, None, 0)
    again = retried(1, 2, FAILURE, 5, started_ago_ms=6)
    assert (again.failure, again.delay_ms, again.started_ago_ms, again.result) == (FAILURE, 5, 6, None)
    assert completed(1, 2, with_errors=True).state is JobState.COMPLETED_WITH_ERRORS
