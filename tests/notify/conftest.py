"""What the tests of escalation share: every store, its clock, and receivers that listen."""

from collections.abc import AsyncIterator

import pytest

from tests.conformance.conftest import clock, one_loop, postgres, shared_schema
from tests.support.notice_receiver import Mailbox, Receiver

__all__ = ["clock", "one_loop", "postgres", "shared_schema"]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver().listening() as listening:
        yield listening


@pytest.fixture
async def mailbox() -> AsyncIterator[Mailbox]:
    async with Mailbox().listening() as listening:
        yield listening
