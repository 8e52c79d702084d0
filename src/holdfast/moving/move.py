"""A move from beginning to end, and how it is given up. Whatever dies, the same command goes on."""

import random
import secrets
from dataclasses import dataclass

from holdfast import moments
from holdfast.errors import Conflict, StoreMoved
from holdfast.moving.copying import Copy, Tell
from holdfast.moving.draining import drain
from holdfast.moving.sides import Side
from holdfast.public_id import TAG_BITS
from holdfast.stores.moving import JOBS, Move, MoveProgress, Stage, Tags


@dataclass(frozen=True)
class Wishes:
    """What was asked for; `to` is the target's URL without its password."""

    to: str
    with_history: bool = False
    wait_s: float = 30.0
    interrupts: bool = False


async def move(source: Side, target: Side, wishes: Wishes, tell: Tell) -> dict[str, int]:
    """Move everything, or go on with a move that was begun; the answer counts the rows by table."""
    mark = await _begin(source, target, wishes)
    if mark.stage is Stage.DRAINING:
        tell("waiting for running jobs", 0)
        mark = await drain(source, mark, wait_s=wishes.wait_s, interrupts=wishes.interrupts)
    moments.reach("move_closed")
    progress = await _take_over(source, target, mark)
    if progress is None:
        return {}
    copy = Copy(source, target, mark, progress, tell)
    if mark.stage is Stage.CLOSED:
        await copy.stage()
        await copy.rehearse()
        await copy.compare()
        moments.reach("move_compared")
        mark = Move(mark.id, mark.to, mark.with_history, Stage.MOVED)
        await source.mark_move(mark)
        moments.reach("move_marked")
    await copy.settle()
    queues = [row.name for row in await target.list_queues()]
    await target.end_progress(mark.id)
    await target.announce(queues)
    return copy.progress.counts


async def _take_over(source: Side, target: Side, mark: Move) -> MoveProgress | None:
    """Replace whoever was at this move; None when it has ended."""
    if mark.stage is Stage.MOVED and not await _copies_of(target, mark.id):
        return None
    new = MoveProgress(mark.id, (await source.read_tags()).own, secrets.token_hex(8))
    progress = await target.take_progress(new)
    now = await source.read_move()
    if now == mark and (progress.step or mark.stage is not Stage.MOVED):
        return progress
    if not progress.step:  # the other one has come to its end before it could be replaced
        await target.end_progress(mark.id)
    message = "another process was at this move until this moment: run the command again"
    raise Conflict(message)


async def abort(source: Side, target: Side | None) -> int | None:
    """Reopen a source that is not given up yet, after what was copied was removed; None when no target was named."""
    mark = await source.read_move()
    if mark is None:
        message = "the store is not being moved: nothing is to be aborted"
        raise Conflict(message)
    if mark.stage is Stage.MOVED:
        message = (
            f"the jobs have been moved to {mark.to} and run there: expected a move that has not ended; to come back,"
        )
        message += " move them to another store"
        raise StoreMoved(message)
    dropped = None
    if target is not None:
        dropped = sum([await target.drop_copies(found) for found in await _copies_of(target, mark.id)])
    await source.unmark_move()
    return dropped


async def _begin(source: Side, target: Side, wishes: Wishes) -> Move:
    mark = await source.read_move()
    if mark is not None:
        _require_same(mark, wishes)
        return mark
    await _prepare(source, target)
    mark = Move(secrets.token_hex(7), wishes.to, wishes.with_history, Stage.DRAINING)
    await source.mark_move(mark)
    moments.reach("move_begun")
    other = await target.read_move()
    if other is not None and other.id == mark.id:  # guard: move-into-itself
        await source.unmark_move()
        message = f"{wishes.to} is the very store that is to be moved: name another one"
        raise Conflict(message)
    return mark


def _require_same(mark: Move, wishes: Wishes) -> None:
    if mark.to != wishes.to:
        raise StoreMoved(mark.words)
    if mark.with_history is not wishes.with_history and mark.stage is not Stage.MOVED:
        begun = "with --history" if mark.with_history else "without --history"
        message = f"this move was begun {begun}: go on with it so, or reopen the source with --abort and begin anew"
        raise Conflict(message)


async def _prepare(source: Side, target: Side) -> None:
    """See to it that no id of the source can mean another job on the target."""
    leaving = await source.read_tags()
    for left in await target.move_progress():
        if left.tag == leaving.own:  # of a move of the same store that was given up
            await target.drop_copies(left)
    there = await target.read_tags()
    coming = leaving.held | {leaving.own}
    if there.held & coming:  # guard: moved-ids
        message = "the target holds jobs whose ids begin as those of the source do, so that an id could mean two jobs: "
        message += "move to another target, for instance an empty one"
        raise Conflict(message)
    if there.own in coming:
        await _change_tag(target, there, coming)


async def _change_tag(target: Side, there: Tags, taken: frozenset[int]) -> None:
    rows, _ = await target.read_page(JOBS, None)
    if rows or there.held:
        message = "the target hands out ids that begin as those of the source do, so that an id could come to mean two "
        message += "jobs: move to another target, for instance an empty one"
        raise Conflict(message)
    await target.change_tag(random.choice([tag for tag in range(1 << TAG_BITS) if tag not in taken]))


async def _copies_of(target: Side, move_id: str) -> list[MoveProgress]:
    return [progress for progress in await target.move_progress() if progress.id == move_id]
