"""`holdfast tokens create|list|revoke`."""

import getpass
from datetime import datetime
from typing import Any

import click
import msgspec

from holdfast import ages, names
from holdfast.cli import completing, listing, locate, options, output, token_shapes
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.duration import positive_ms
from holdfast.remote.link import refuse_actor
from holdfast.server import secrets
from holdfast.stores.access import Deed, NewPass, Pass

_ROLES = ("viewer", "operator", "admin")
_LONGEST_NAME = 100
_COLUMNS = (
    Column("ID", is_number=True),
    Column("NAME", is_flexible=True),
    Column("ROLE"),
    Column("QUEUES", is_flexible=True),
    Column("ENDS IN"),
    Column("CREATED"),
    Column("USED"),
    Column("EXPIRES"),
    Column("STATE"),
)
_CREATE = ("--name grafana --role viewer", "--name deploy --role operator --queue high --expires 90d")


@click.group("tokens", cls=Noun, examples=("create --name me --role admin", "list", "revoke 3"))
def tokens() -> None:
    """Make and revoke what programs and people come in with."""


@tokens.command("create", examples=_CREATE)
@click.option(
    "--name", required=True, metavar="NAME", help="Whose it is; the audit says it of whatever is done with it."
)
@click.option("--role", required=True, type=click.Choice(_ROLES), help="What may be done with it.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    shell_complete=completing.queues,
    help="Only this queue is seen; repeatable. [default: all]",
)
@click.option("--expires", metavar="DURATION", help="After how long it ends: 90d. [default: never]")
@options.actor
@options.as_json
@click.pass_context
def create(
    ctx: click.Context,
    *,
    name: str,
    role: str,
    queues: tuple[str, ...],
    expires: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Make a token.

    Its secret is printed here and never again: the store keeps a digest of it.
    """
    called = names.text(name, "--name", _LONGEST_NAME)
    seen = tuple(names.name(queue, "--queue") for queue in queues) or None
    lasts_ms = None if expires is None else positive_ms(expires, "--expires")
    is_remote = _is_remote(ctx, actor)

    async def add(session: Session) -> tuple[Pass, str]:
        if is_remote:
            client: Any = session.client
            told: tuple[Pass, str] = await client.create_token(called, role, seen, expires)
            return told
        secret = secrets.new_secret()
        kept: dict[str, Any] = {"digest": secrets.digest_of(secret), "hint": secrets.hint_of(secret)}
        who: dict[str, Any] = {"name": called, "role": role, "queues": seen, "created_by": _who(actor)}
        made = await session.store.add_pass(NewPass(kind="token", lasts_ms=lasts_ms, **kept, **who))
        await session.store.add_deed(_deed("create_token", made, made.created_by))
        return made, secret

    made, secret = with_store(ctx, add)
    if as_json:
        output.write_json(token_shapes.NewTokenShape(token_shapes.token(made), secret))
        return
    output.line(secret)
    output.note(f"token {made.id} for {made.name}, role {made.role}; keep it now, it is not shown again")


@tokens.command("list", examples=("", "-o id", "--json"))
@listing.form
@click.pass_context
def list_tokens(ctx: click.Context, *, form: listing.Form) -> None:
    """List tokens, the youngest first.

    Those that hold no more are listed for a month after.
    """
    is_remote = _is_remote(ctx, None)

    async def read(session: Session) -> tuple[list[Pass], datetime]:
        client: Any = session.client
        rows = await (client.tokens() if is_remote else session.store.list_passes("token"))
        return rows, await session.now()

    found, now = with_store(ctx, read)
    shape = token_shapes.TokensShape([token_shapes.token(one) for one in found])
    empty = "there is no token; make one with `tokens create --name me --role admin`"
    listing.write(form, shape, _COLUMNS, [_row(one, now) for one in found], empty=empty)


@tokens.command("revoke", examples=("3", "3 --json"))
@click.argument("number", type=click.IntRange(1, 2**63 - 1), metavar="ID")
@options.actor
@options.as_json
@click.pass_context
def revoke(ctx: click.Context, *, number: int, actor: str | None, as_json: bool) -> None:
    """Let a token, and every login that was begun with it, hold no more.

    ID is its number in `tokens list`. Exit code 3: there is no such token.
    """
    is_remote = _is_remote(ctx, actor)

    async def end(session: Session) -> Pass | None:
        if is_remote:
            client: Any = session.client
            told: Pass | None = await client.revoke_token(number)
            return told
        if not await session.store.list_passes("token", number=number):
            return None
        ended = await session.store.revoke_pass(number, actor=_who(actor))
        if ended is not None:
            await session.store.add_deed(_deed("revoke_token", ended, _who(actor)))
        return ended

    ended = with_store(ctx, end)
    if ended is None:
        message = f"there is no token {number}; `tokens list` shows all"
        raise Refusal(message, Exit.NOT_FOUND, kind="TokenNotFound")
    if as_json:
        output.write_json(token_shapes.token(ended))
    else:
        output.line(f"token {ended.id} of {ended.name} holds no more")


def _is_remote(ctx: click.Context, actor: str | None) -> bool:
    """Whether a server is asked, which writes down who came with which token."""
    if locate.server(ctx) is None:
        return False
    refuse_actor(actor)
    return True


def _who(actor: str | None) -> str:
    if actor is not None:
        return names.text(actor, "--actor", _LONGEST_NAME)
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for whoever runs in it
        return "command line"


def _deed(action: str, found: Pass, actor: str) -> Deed:
    """What the audit says of it, as if the API had been asked."""
    facts = {"name": found.name, "role": found.role, "queues": found.queues}
    return Deed(
        actor=actor,
        role="admin",
        action=action,
        target=f"tokens/{found.id}",
        queue=None,
        status=200,
        detail=msgspec.json.encode(facts).decode(),
        request="command line",
    )


def _row(one: Pass, now: datetime) -> list[Cell]:
    is_over = one.expires_at is not None and one.expires_at <= now
    state = "revoked" if one.revoked_at is not None else "expired" if is_over else "holds"
    return [
        Cell(str(one.id)),
        Cell(one.name),
        Cell(one.role),
        Cell("all" if one.queues is None else ",".join(one.queues)),
        Cell(one.hint),
        Cell(ages.age(one.created_at, now), ages.iso(one.created_at)),
        Cell(*_moment(one.used_at, now)),
        Cell("never" if one.expires_at is None else ages.iso(one.expires_at)),
        Cell(state, style="" if state == "holds" else "bright_black"),
    ]


def _moment(moment: datetime | None, now: datetime) -> tuple[str, str]:
    return ("never", "") if moment is None else (ages.age(moment, now), ages.iso(moment))
