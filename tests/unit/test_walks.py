"""A walk back through two streams: what counts as found, when it stops, and how large its windows are."""

from holdfast.stores.searching import LEAST_WINDOW, Step, Stream, Walk, Way, way_of
from holdfast.stores.values import JobFilter


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def walk(wanted: int = 3, budget_ms: int = 100) -> tuple[Walk, Stream, Stream, Time]:
    time = Time()
    live, finished = Stream("live", is_whole=True), Stream("finished", is_whole=False)
    return Walk([live, finished], wanted, budget_ms, time), live, finished, time


def test_what_one_stream_found_beyond_where_the_other_has_come_does_not_count() -> None:
    walked, live, finished, time = walk()
    assert walked.behind() is live
    walked.add(live, Step([(90, 9), (10, 1)], (10, 1), is_last=False))
    assert walked.behind() is finished
    walked.add(finished, Step([(80, 8)], (50, 5), is_last=False))
    time.now = 1.0
    assert walked.behind() is None
    assert walked.page(2) == ([(90, 9), (80, 8)], (50, 5), False)


def test_the_stream_that_is_behind_is_read_until_the_page_is_full() -> None:
    walked, live, finished, _ = walk()
    walked.add(live, Step([(90, 9), (10, 1)], (10, 1), is_last=False))
    walked.add(finished, Step([], (50, 5), is_last=False))
    assert walked.behind() is finished
    walked.add(finished, Step([(40, 4), (30, 3)], (30, 3), is_last=False))
    assert walked.behind() is None
    assert walked.page(2) == ([(90, 9), (40, 4)], (40, 4), True)


def test_the_end_of_both_is_the_end() -> None:
    walked, live, finished, _ = walk()
    walked.add(live, Step([], None, is_last=True))
    walked.add(finished, Step([(40, 4)], (40, 4), is_last=True))
    assert walked.behind() is None
    assert walked.page(2) == ([(40, 4)], None, True)


def test_rows_that_may_take_long_are_looked_at_in_small_windows_first() -> None:
    time = Time()
    stream = Stream("finished", is_whole=False)
    walked = Walk([stream], 3, 100, time, is_costly=True)
    assert (walked.window, walked.patience_s) == (LEAST_WINDOW, None)
    assert walked.behind() is stream
    time.now = 0.000_1
    walked.add(stream, Step([], (90, 9), is_last=False))
    assert walked.window > LEAST_WINDOW
    assert walked.patience_s is not None
    time.now = 0.25
    walked.give_up()
    assert walked.window == LEAST_WINDOW
    assert walked.behind() is None
    assert walked.page(2) == ([], (90, 9), False)


def test_both_streams_are_read_once_however_short_the_time_is() -> None:
    walked, live, finished, time = walk(budget_ms=0)
    time.now = 5.0
    assert walked.behind() is live
    walked.add(live, Step([], (90, 9), is_last=False))
    assert walked.behind() is finished
    walked.add(finished, Step([], (80, 8), is_last=False))
    assert walked.behind() is None
    assert walked.page(2) == ([], (90, 9), False)


def test_windows_grow_as_far_as_the_time_that_is_left() -> None:
    walked, live, finished, time = walk(budget_ms=100)
    assert (walked.behind(), walked.window) == (live, 256)
    time.now += 0.001
    walked.add(live, Step([], None, is_last=True))
    assert walked.window == 4_096
    assert walked.behind() is finished
    time.now += 0.060
    walked.add(finished, Step([], (80, 8), is_last=False))
    assert walked.window == 1_024
    walked.behind()
    time.now += 0.030
    walked.add(finished, Step([], (70, 7), is_last=False))
    assert walked.window == 256


def test_the_narrowest_condition_is_the_way() -> None:
    assert way_of(JobFilter()) is Way.LISTED
    assert way_of(JobFilter(kinds=("a",), queues=("b",))) is Way.KIND
    assert way_of(JobFilter(kinds=tuple(map(str, range(20))), queues=("b",))) is Way.QUEUE
    assert way_of(JobFilter(id_range=(0, 1 << 40))) is Way.LISTED
    assert way_of(JobFilter(id_range=(0, 100))) is Way.IDS
