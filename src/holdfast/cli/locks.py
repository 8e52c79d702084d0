"""`holdfast locks list|release`."""

import sys

import click

from holdfast.cli import completing, listing, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.tables import Attribute, ResourceTable
from holdfast.client.locks import held_lock
from holdfast.resources.lock import LockInfo, LockList

_LOCKS = ResourceTable[LockInfo](
    Attribute("NAME", lambda lock: lock.name, is_flexible=True),
    Attribute("OWNER", lambda lock: lock.owner, is_flexible=True),
    Attribute("JOB", lambda lock: lock.job or "-"),
    Attribute("SINCE", lambda lock: lock.since),
    Attribute("WAITING", lambda lock: lock.waiters, is_number=True),
    Attribute("TOKEN", lambda lock: lock.token, is_number=True),
)


@click.group("locks", cls=Noun, examples=("list", "release edition:42"))
def locks() -> None:
    """List the locks that are held, and take one away."""


@locks.command("list", examples=("", "-o csv", "--json"))
@listing.form
@click.pass_context
def list_locks(ctx: click.Context, *, form: listing.Form) -> None:
    """List the locks that are held.

    Who holds each, as host and process, for which job, since when, and how many wait for it; the oldest 1,000.
    """
    found, now = listing.read(ctx, lambda session: session.client.locks.list())
    listing.write(form, LockList(locks=found), *_LOCKS.of(found, now), empty="no lock is held")


@locks.command("release", examples=("edition:42", "edition:42 --yes --json"))
@click.argument("name", shell_complete=completing.locks)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@options.as_json
@click.pass_context
def release(ctx: click.Context, *, name: str, yes: bool, as_json: bool) -> None:
    """Take a lock from a holder that hangs.

    The next in line gets it at once. The old holder is stopped within seconds; until then both may work, and only the
    fencing token tells them apart. The lock of a process that has died ends by itself.
    """
    if not yes:
        _confirm(ctx, name)

    async def take(session: Session) -> LockInfo:
        locks = session.client.locks
        return await locks.release(name, held_lock(await locks.list(), name).token)

    lock = with_store(ctx, take)
    output.answer(lock, f"{lock.name} was taken from {lock.owner}", as_json=as_json)


def _confirm(ctx: click.Context, name: str) -> None:
    if not sys.stdin.isatty():
        message = f"releasing {name} while its holder works lets two work at once; say so with --yes"
        raise click.UsageError(message, ctx)
    shown = output.one_line(name)
    click.confirm(f"take the lock {shown} from its holder, which may still work?", abort=True, err=True)
