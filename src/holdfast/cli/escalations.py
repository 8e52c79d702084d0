"""`holdfast escalations list|show|ack|snooze|test`."""

import asyncio
from datetime import datetime
from typing import Any

import click

from holdfast import ages, public_id
from holdfast.cli import escalation_shapes, listing, locate, moments, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.client.escalations import EscalationState
from holdfast.stores.alarms import EscalationRow

_COLUMNS = (
    Column("ID", is_number=True),
    Column("STATE"),
    Column("TITLE", is_flexible=True),
    Column("QUEUE"),
    Column("COUNT", is_number=True),
    Column("LAST"),
    Column("POLICY"),
)


@click.group("escalations", cls=Noun, examples=("list", "ack 7 --note 'on it'", "snooze 7 --for 2h", "test ops"))
def escalations() -> None:
    """Look at what went wrong, answer it, and test who is told."""


@escalations.command("list", examples=("", "--open", "--open -o id", "--policy ops --json"))
@click.option("--open/--closed", "is_open", default=None, help="Only those that are open, or closed.")
@click.option("--policy", metavar="NAME", help="Only those of this policy.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=100, show_default=True, metavar="N", help="How many at most."
)
@click.option("--before", type=click.IntRange(1), metavar="ID", help="Only older ones: the last id of the page before.")
@listing.form
@click.pass_context
def list_escalations(
    ctx: click.Context,
    *,
    is_open: bool | None,
    policy: str | None,
    limit: int,
    before: int | None,
    form: listing.Form,
) -> None:
    """List escalations, newest first.

    Failures of one kind and cause are one escalation, which counts them. It is closed by an answer (ack) or by a quiet
    hour.
    """
    rows = with_store(
        ctx,
        lambda session: session.client.escalations(is_open=is_open, policy=policy, limit=limit, before=before),
    )
    now = ages.now()
    shape = escalation_shapes.EscalationsShape([escalation_shapes.escalation(row) for row in rows])
    empty = "no escalation fits: nothing went wrong, or no queue has an escalation policy"
    listing.write(form, shape, _COLUMNS, [_row(row, now) for row in rows], empty=empty)


@escalations.command("show", examples=("7", "7 --json"))
@click.argument("number", type=click.IntRange(1), metavar="ID")
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, number: int, as_json: bool) -> None:
    """Show one escalation and the messages about it."""
    state = with_store(ctx, lambda session: session.client.escalation(number))
    if as_json:
        output.write_json(escalation_shapes.state(state))
        return
    for name, text in _facts(state):
        output.line(f"{name:<12}{text}")


@escalations.command("ack", examples=("7", "7 --note 'the disk was full' --actor ann"))
@click.argument("number", type=click.IntRange(1), metavar="ID")
@click.option("--note", metavar="TEXT", help="What was found or is being done; kept with the escalation.")
@options.actor
@options.as_json
@click.pass_context
def ack(ctx: click.Context, *, number: int, note: str | None, actor: str | None, as_json: bool) -> None:
    """Answer an escalation, which closes it.

    Nobody is told again of it, and pagers hear of the answer. The next failure of that kind opens another one; snooze
    it instead to hear nothing for a while.
    """
    row = with_store(ctx, lambda session: session.client.ack_escalation(number, actor=actor, note=note))
    if as_json:
        output.write_json(escalation_shapes.escalation(row))
    else:
        output.line(f"escalation {number} acknowledged by {row.acked_by or 'somebody'}")


@escalations.command("snooze", examples=("7 --for 2h", "7 --until 2026-11-17T09:00:00Z"))
@click.argument("number", type=click.IntRange(1), metavar="ID")
@click.option("--for", "lasts", metavar="TIME", help="How long: 30m, 2h, 1d.")
@click.option("--until", metavar="TIME", help="Until when, with an offset: 2026-11-17T09:00:00Z.")
@options.actor
@options.as_json
@click.pass_context
def snooze(
    ctx: click.Context, *, number: int, lasts: str | None, until: str | None, actor: str | None, as_json: bool
) -> None:
    """Say nothing of an open escalation for a while.

    It goes on counting; if it has not become quiet by then, it is told again and its response clock starts anew.
    """
    if (lasts is None) == (until is None):
        message = "give either --for or --until"
        raise click.UsageError(message, ctx)
    at = None if until is None else moments.due(until, "--until")

    async def change(session: Session) -> EscalationRow:
        return await session.client.snooze_escalation(number, until=at, lasts=lasts, actor=actor)

    row = with_store(ctx, change)
    if as_json:
        output.write_json(escalation_shapes.escalation(row))
    else:
        output.line(f"escalation {number} is silent until {ages.iso(row.snoozed_until or ages.now())}")


@escalations.command("test", examples=("ops", "ops --json"))
@click.argument("name")
@options.as_json
@click.pass_context
def test(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Send a test message through the channels of a policy now.

    It goes out from here, or from the server that was named, not by the outbox, and what every channel answered is
    printed. Exit code 1 when one failed.
    """
    sent = _asked(ctx, name) if locate.server(ctx) is not None else _sent(ctx, name)
    if as_json:
        output.write_json(escalation_shapes.tested(name.lower(), sent))
    else:
        for channel, error in sent.items():
            output.line(f"{channel}: {'sent' if error is None else error}")
    if any(error is not None for error in sent.values()):
        raise click.exceptions.Exit(Exit.ERROR)


def _asked(ctx: click.Context, name: str) -> dict[str, str | None]:
    """Have a server send it, and tell what went wrong with each channel."""

    async def ask(session: Session) -> dict[str, str | None] | None:
        client: Any = session.client  # a RemoteClient
        told: dict[str, str | None] | None = await client.try_policy(name)
        return told

    if (sent := with_store(ctx, ask)) is None:
        message = f"escalations test: the server has no policy {name!r}"
        raise Refusal(message, Exit.NOT_FOUND, kind="PolicyNotFound")
    return sent


def _sent(ctx: click.Context, name: str) -> dict[str, str | None]:
    """Send it from here, and tell what went wrong with each channel."""
    from holdfast.services.sending import Sender, Sent, require_channels  # noqa: PLC0415 - only this one sends

    settings = locate.app_or_store(ctx)[0].settings
    policy = settings.escalations.get(name.lower())
    if policy is None:
        known = ", ".join(sorted(settings.escalations)) or "none; name the app with -A"
        message = f"escalations test: expected a policy among {known}, got {name!r}"
        raise Refusal(message, Exit.NOT_FOUND, kind="PolicyNotFound")
    require_channels(settings)

    async def run() -> dict[str, Sent]:
        sender = Sender(settings.channels)
        try:
            return await sender.test(policy)
        finally:
            await sender.close()

    return {channel: one.error for channel, one in asyncio.run(run()).items()}


def _row(row: EscalationRow, now: datetime) -> list[Cell]:
    state, style = row.standing(now), None
    if state in ("open", "unanswered"):
        style = "red"
    return [
        Cell(str(row.id)),
        Cell(state, style=style) if style else Cell(state),
        Cell(row.title),
        Cell(row.queue),
        Cell(f"{row.count:,}", str(row.count)),
        Cell(ages.age(row.last_at, now), ages.iso(row.last_at)),
        Cell(row.policy if row.stage == row.policy else f"{row.policy} -> {row.stage}"),
    ]


def _facts(state: EscalationState) -> list[tuple[str, str]]:
    row = state.escalation
    facts: list[tuple[str, str | None]] = [
        ("escalation", str(row.id)),
        ("state", row.standing(ages.now())),
        ("title", row.title),
        ("source", row.source),
        ("queue", row.queue or None),
        ("kind", row.kind or None),
        ("cause", row.fingerprint or None),
        ("count", f"{row.count:,}"),
        ("first", ages.iso(row.first_at)),
        ("last", ages.iso(row.last_at)),
        ("jobs", " ".join(public_id.encode(job) for job in row.jobs) or None),
        ("policy", row.policy if row.stage == row.policy else f"{row.policy} -> {row.stage}"),
        ("answer by", None if row.due_at is None else ages.iso(row.due_at)),
        ("snoozed", None if row.snoozed_until is None else f"until {ages.iso(row.snoozed_until)}"),
        ("answered", None if row.acked_at is None else f"{ages.iso(row.acked_at)} by {row.acked_by or 'somebody'}"),
        ("note", row.note),
    ]
    for notice in state.notices:
        ended = notice.ended_at or notice.next_at
        word = {"sent": "sent", "failed": "given up", "pending": "tried again at"}[notice.state]
        told = f"{notice.event} to {notice.channel}: {word} {ages.iso(ended)}"
        facts.append(("message", told + (f" ({notice.error})" if notice.error else "")))
    return [(name, text) for name, text in facts if text is not None]
