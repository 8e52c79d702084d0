"""Choosing jobs: in the filter language, or by their ids."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query

from holdfast import filtering, public_id
from holdfast.client.jobs import EVERY_JOB
from holdfast.stores.values import JobFilter

Question = Annotated[
    str | None,
    Query(
        max_length=filtering.LONGEST,
        description="Which jobs, in the filter language: `kind:send_email state:failed since:1h`.",
        examples=["kind:send_email state:failed since:1h"],
    ),
]


def chosen(question: str | None) -> JobFilter:
    """Read which jobs are meant; no question means all of them."""
    return EVERY_JOB if question is None else filtering.parse(question, datetime.now(UTC)).where


def named(ids: list[str]) -> JobFilter:
    """Choose jobs by their public ids."""
    return JobFilter(ids=tuple(dict.fromkeys(public_id.decode(one) for one in ids)))
