"""The weighted rotation: shares are exact, turns are spread, nobody starves."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from holdfast.delivery.redis_turns import Turns


def test_one_turn_at_a_time_the_light_shard_gets_one_in_five() -> None:
    turns = Turns([4, 1])
    order = [next(iter(turns.deal(1, [0, 1]))) for _ in range(10)]
    assert order == [0, 0, 1, 0, 0] * 2


def test_many_turns_are_dealt_by_weight() -> None:
    assert Turns([4, 1]).deal(10, [0, 1]) == {0: 8, 1: 2}
    assert Turns([4, 1]).deal(2, [0, 1]) == {0: 2}


def test_a_shard_that_cannot_be_asked_gets_none() -> None:
    turns = Turns([4, 1, 5])
    assert turns.deal(5, [0, 1]) == {0: 4, 1: 1}
    assert turns.deal(3, [1]) == {1: 3}
    assert turns.deal(10, [0, 1, 2]) == {0: 4, 1: 1, 2: 5}


@given(st.lists(st.integers(1, 100), min_size=1, max_size=5), st.lists(st.integers(0, 300), max_size=20))
def test_shares_follow_the_weights_however_the_turns_come(weights: list[int], asked: list[int]) -> None:
    turns, dealt = Turns(weights), Counter[int]()
    among = range(len(weights))
    for wanted in asked:
        share = turns.deal(wanted, among)
        assert sum(share.values()) == wanted
        dealt.update(share)
    total = sum(asked)
    for shard in among:
        assert abs(dealt[shard] - total * weights[shard] / sum(weights)) < len(weights)
