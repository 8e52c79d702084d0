"""No text of an exported dead letter quotes a secret, also where a release before this one has stored it."""

import pytest
from pydantic import SecretStr

from holdfast.failure import Failure
from holdfast.stores.store import Store
from holdfast.transitions import failed
from tests.support.builders import claim_one
from tests.support.workers import MakeApp

SECRET = "correct-horse-battery"


@pytest.mark.guards("exported-error", "exported-fingerprint", "exported-traceback", "exported-payload")
async def test_a_secret_that_was_stored_is_covered_in_every_text(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(max_attempts=1)
    async def call(token: SecretStr) -> None: ...

    async with app:
        await call.enqueue(SecretStr(SECRET))
        store: Store = app.store
        job = await claim_one(store)
        why = Failure("ValueError", f"refused {SECRET}", f"line 1: {SECRET}", f"ValueError:refused {SECRET}")
        await store.finish_jobs([failed(job.id, job.claim, why)])
        (line,) = [line async for line in app.dead_letters.export()]
    assert SECRET not in str(line)
    assert line.error_fingerprint == "ValueError:refused **********"
    assert (line.error, line.traceback) == ("refused **********", "line 1: **********")
    assert line.args == {"token": "**********"}
