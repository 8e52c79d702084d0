"""How often one may ask."""

import pytest

from holdfast.policies.rate import Rate
from holdfast.server.pacing import Pacing
from holdfast.server.principal import Principal
from holdfast.server.problems import Problem
from holdfast.server.roles import Role

ANN = Principal("ann", Role.VIEWER, via="token", token_id=1)
BOB = Principal("ann", Role.VIEWER, via="token", token_id=2)  # by the same name


def taken(pacing: Pacing, who: Principal) -> bool:
    try:
        pacing.take(who)
    except Problem as problem:
        return (problem.status, int(problem.headers["retry-after"]) >= 1) != (429, True)
    return True


def test_a_period_at_once_and_no_more_in_any() -> None:
    now = 100.0
    pacing = Pacing(Rate(10, 1_000), lambda: now)
    assert [taken(pacing, ANN) for _ in range(12)] == [True] * 10 + [False] * 2
    now += 0.05
    assert not taken(pacing, ANN)
    now += 0.05
    assert [taken(pacing, ANN), taken(pacing, ANN)] == [True, False]
    now += 60
    assert sum(taken(pacing, ANN) for _ in range(20)) == 10


def test_each_has_their_own() -> None:
    pacing = Pacing(Rate(1, 60_000), lambda: 0.0)
    assert [taken(pacing, ANN), taken(pacing, BOB), taken(pacing, ANN)] == [True, True, False]


def test_those_who_are_forgotten_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.server.pacing._KNOWN", 10)
    pacing = Pacing(Rate(1, 60_000), lambda: 0.0)
    them = [Principal("x", Role.VIEWER, via="token", token_id=number) for number in range(100)]
    assert all(taken(pacing, who) for who in them)
    assert [taken(pacing, them[number]) for number in (99, 90, 89)] == [False, False, True]
