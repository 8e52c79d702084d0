"""Names for the Tab key: kinds, queues, schedules, limits, budgets and locks, from the store or server that is chosen.

A shell waits for the answer while a person types: what cannot be known at once is not offered, without a word. No app
is imported: pressing Tab must not run code.
"""

import contextlib
import io
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import click

from holdfast.cli import connect, locate
from holdfast.cli.connect import Session

_PATIENCE_S = 0.3

Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def _named(
    read: Callable[[Session], Awaitable[Iterable[str]]], own: Callable[[Any], Iterable[str]] | None = None
) -> Any:
    """Make the completion of one sort of name: those that a program or a file defines, and those of the store."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        found: set[str] = set()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            with contextlib.suppress(Exception):
                if own is not None and locate.server(ctx) is None:
                    found.update(own(locate.store_alone(ctx)))
            with contextlib.suppress(Exception):
                found.update(connect.within(ctx, read, _PATIENCE_S))
        return sorted(name for name in found if name.startswith(incomplete.lower()))

    return complete


async def _kinds(session: Session) -> Iterable[str]:
    return [kind.name for kind in await session.client.kinds.list()]


async def _queues(session: Session) -> Iterable[str]:
    return [queue.name for queue in await session.client.queues.list()]


async def _schedules(session: Session) -> Iterable[str]:
    return [schedule.name for schedule in await session.client.schedules.list()]


async def _limits(session: Session) -> Iterable[str]:
    return [limit.name for limit in await session.client.limits.list()]


async def _budgets(session: Session) -> Iterable[str]:
    return [budget.name for budget in await session.client.budgets.list()]


async def _locks(session: Session) -> Iterable[str]:
    return [lock.name for lock in await session.client.locks.list()]


kinds: Completion = _named(_kinds, lambda app: [task.name for task in app.tasks])
queues: Completion = _named(_queues, lambda app: [*app.config.queues, *(task.queue for task in app.tasks)])
schedules: Completion = _named(_schedules, lambda app: app.schedule_definitions)
limits: Completion = _named(_limits)
budgets: Completion = _named(_budgets)
locks: Completion = _named(_locks)
