"""A finish meets whatever else may happen to its job, on two real connections."""

import pytest

from tests.races import scenarios
from tests.races.rivals import Rivals
from tests.races.scenarios import SCENARIOS, Scenario
from tests.support.connections import replace_function
from tests.support.sizes import size

FENCE = ("state = 'running' AND claim = t.fence", "state = 'running'")
STATE = ("state = 'running' AND claim = t.fence", "claim = t.fence")
MARK = ("WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'", "")


def _name(scenario: Scenario) -> str:
    return getattr(scenario, "__name__", "scenario")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=_name)
async def test_exactly_one_side_counts(rivals: Rivals, scenario: Scenario) -> None:
    assert await scenario(rivals, size(200, 2_000)) == []


@pytest.mark.parametrize(
    "scenario, change",
    [
        pytest.param(scenarios.finish_against_rescue, STATE, id="a rescued job is finished"),
        pytest.param(scenarios.zombie_against_new_claim, FENCE, id="a zombie finishes its heir's claim"),
        pytest.param(scenarios.zombie_against_manual_retry, FENCE, id="a zombie finishes a later life"),
        pytest.param(scenarios.finish_against_cancel, MARK, id="a cancelled job waits again"),
    ],
)
async def test_a_guard_removed_is_noticed(rivals: Rivals, scenario: Scenario, change: tuple[str, str]) -> None:
    await replace_function(rivals.watcher, rivals.schema, "finish_jobs", change)
    assert await scenario(rivals, 40)


async def test_two_jobs_share_a_unique_key_once_its_index_is_gone(rivals: Rivals) -> None:
    await rivals.watcher.execute(rivals.sql("DROP INDEX holdfast.jobs_unique"))
    assert await scenarios.unique_insert_while_live(rivals, 40)


async def test_a_key_without_a_row_of_its_own_makes_two_jobs(rivals: Rivals) -> None:
    # The key then lives in the job's row, which has moved when the request comes again.
    await replace_function(
        rivals.watcher,
        rivals.schema,
        "hold_key",
        (
            "WHERE i.scope = p_scope AND i.key = p_key;",
            "WHERE i.scope = p_scope AND i.key = p_key AND i.job_id IN (SELECT j.id FROM holdfast.jobs AS j);",
        ),
        (
            "AND i.key = p_key AND i.expires_at <= p_now",
            "AND i.key = p_key AND i.job_id NOT IN (SELECT j.id FROM holdfast.jobs AS j)",
        ),
    )
    assert await scenarios.keyed_insert_that_finishes(rivals, 40)
