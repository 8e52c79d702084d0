"""`holdfast tokens create|list|revoke`."""

from datetime import datetime
from typing import Any

import click

from holdfast import ages
from holdfast.cli import completing, listing, options, output
from holdfast.cli.connect import with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell
from holdfast.cli.tables import Attribute, ResourceTable
from holdfast.resources.token import RoleName, Token, TokenList

_ROLES = ("viewer", "operator", "admin")
_TOKENS = ResourceTable[Token](
    Attribute("ID", lambda token: token.id, is_number=True),
    Attribute("NAME", lambda token: token.name, is_flexible=True),
    Attribute("ROLE", lambda token: token.role),
    Attribute("QUEUES", lambda token: "all" if token.queues is None else ",".join(token.queues), is_flexible=True),
    Attribute("ENDS IN", lambda token: token.hint),
    Attribute("CREATED", lambda token: token.created_at),
    Attribute("USED", lambda token: token.used_at or Cell("never", "")),
    Attribute("EXPIRES", lambda token: "never" if token.expires_at is None else ages.iso(token.expires_at)),
    Attribute("STATE", lambda token: lambda now: _state(token, now)),
)
_CREATE = ("--name grafana --role viewer", "--name deploy --role operator --queue high --expires-in 90d")


@click.group("tokens", cls=Noun, examples=("create --name me --role admin", "list", "revoke 3"))
def tokens() -> None:
    """Make and revoke tokens for apps and people."""


@tokens.command("create", examples=_CREATE)
@click.option("--name", required=True, metavar="NAME", help="Whose it is; the audit says it of what is done with it.")
@click.option("--role", required=True, type=click.Choice(_ROLES), help="What may be done with it.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    shell_complete=completing.queues,
    help="Only this queue is seen; repeatable. [default: all]",
)
@click.option("--expires-in", metavar="DURATION", help="After how long it ends: 90d. [default: never]")
@options.actor
@options.as_json
@click.pass_context
def create(ctx: click.Context, /, *, name: str, role: RoleName, as_json: bool, **options: Any) -> None:
    """Make a token.

    Its secret is printed here and never again: the store keeps a digest of it.
    """
    queues = options.pop("queues") or None
    made = with_store(ctx, lambda session: session.client.tokens.create(name, role, queues=queues, **options))
    if as_json:
        output.write_json(made)
        return
    output.line(made.secret)
    output.note(f"token {made.id} for {made.name}, role {made.role}; keep it now, it is not shown again")


@tokens.command("list", examples=("", "-o id", "--json"))
@listing.form
@click.pass_context
def list_tokens(ctx: click.Context, *, form: listing.Form) -> None:
    """List tokens, the youngest first.

    Tokens that expired or were revoked are listed for a month after.
    """
    found, now = listing.read(ctx, lambda session: session.client.tokens.list())
    empty = "there is no token; make one with `tokens create --name me --role admin`"
    listing.write(form, TokenList(tokens=found), *_TOKENS.of(found, now), empty=empty)


@tokens.command("revoke", examples=("3", "3 --json"))
@click.argument("number", type=click.IntRange(1, 2**63 - 1), metavar="ID")
@options.actor
@options.as_json
@click.pass_context
def revoke(ctx: click.Context, *, number: int, actor: str | None, as_json: bool) -> None:
    """End a token, and every login that began with it.

    ID is its number in `tokens list`. Exit code 3: there is no such token.
    """
    revoked = with_store(ctx, lambda session: session.client.tokens.revoke(number, actor=actor))
    output.answer(revoked, f"token {revoked.id} of {revoked.name} is revoked", as_json=as_json)


def _state(token: Token, now: datetime) -> Cell:
    is_over = token.expires_at is not None and token.expires_at <= now
    state = "revoked" if token.revoked_at is not None else "expired" if is_over else "holds"
    return Cell(state, style="" if state == "holds" else "bright_black")
