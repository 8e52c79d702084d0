"""`holdfast escalations list|show|ack|snooze|test`."""

import click

from holdfast import ages
from holdfast.cli import listing, moments, options, output
from holdfast.cli.connect import with_store
from holdfast.cli.exits import Exit
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell
from holdfast.cli.tables import Attribute, ResourceTable, counted
from holdfast.resources.escalation import EscalationDetail, EscalationInfo

_RED = ("open", "unanswered")


def _policy(escalation: EscalationInfo) -> str:
    return escalation.policy if escalation.stage == escalation.policy else f"{escalation.policy} -> {escalation.stage}"


_ESCALATIONS = ResourceTable[EscalationInfo](
    Attribute("ID", lambda escalation: escalation.id, is_number=True),
    Attribute("STATE", lambda escalation: Cell(escalation.state, style="red" if escalation.state in _RED else "")),
    Attribute("TITLE", lambda escalation: escalation.title, is_flexible=True),
    Attribute("QUEUE", lambda escalation: escalation.queue),
    Attribute("COUNT", lambda escalation: counted(escalation.count), is_number=True),
    Attribute("LAST", lambda escalation: escalation.last_at),
    Attribute("POLICY", _policy),
)


@click.group("escalations", cls=Noun, examples=("list", "ack 7 --note 'on it'", "snooze 7 --for 2h", "test ops"))
def escalations() -> None:
    """Look at what went wrong, answer it, and test who is notified."""


@escalations.command("list", examples=("", "--open", "--open -o id", "--policy ops --json"))
@click.option("--open/--closed", "is_open", default=None, help="Only those that are open, or closed.")
@click.option("--policy", metavar="NAME", help="Only those of this policy.")
@options.number("--limit", 100, "How many at most.")
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
    page = with_store(
        ctx,
        lambda session: session.client.escalations.list(is_open=is_open, policy=policy, limit=limit, before=before),
    )
    empty = "no escalation fits: nothing went wrong, or no queue has an escalation policy"
    listing.write(form, page, *_ESCALATIONS.of(page.escalations), empty=empty)


@escalations.command("show", examples=("7", "7 --json"))
@click.argument("number", type=click.IntRange(1), metavar="ID")
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, number: int, as_json: bool) -> None:
    """Show one escalation and the notices about it."""
    detail = with_store(ctx, lambda session: session.client.escalations.get(number))
    if as_json:
        output.write_json(detail)
        return
    for name, text in _facts(detail):
        output.line(f"{name:<12}{text}")


@escalations.command("ack", examples=("7", "7 --note 'the disk was full' --actor ann"))
@click.argument("number", type=click.IntRange(1), metavar="ID")
@click.option("--note", metavar="TEXT", help="What was found or is being done; kept with the escalation.")
@options.actor
@options.as_json
@click.pass_context
def ack(ctx: click.Context, *, number: int, note: str | None, actor: str | None, as_json: bool) -> None:
    """Acknowledge an escalation, which closes it.

    No further notice of it is sent, except the answer to pagers and webhooks. The next failure of that kind opens
    another escalation; snooze it instead to get no notice for a while.
    """
    escalation = with_store(ctx, lambda session: session.client.escalations.ack(number, actor=actor, note=note))
    output.answer(escalation, f"escalation {number} acknowledged{_by(escalation.acked_by)}", as_json=as_json)


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
    """Send no notice of an open escalation for a while.

    It goes on counting. If it has not become quiet by then, its policy is notified again and the response clock starts
    again.
    """
    if (lasts is None) == (until is None):
        message = "give either --for or --until"
        raise click.UsageError(message, ctx)
    at = None if until is None else moments.due(until, "--until")
    escalation = with_store(
        ctx, lambda session: session.client.escalations.snooze(number, until=at, lasts=lasts, actor=actor)
    )
    output.answer(
        escalation,
        f"escalation {number} is snoozed until {ages.iso(escalation.snoozed_until or ages.now())}",
        as_json=as_json,
    )


@escalations.command("test", examples=("ops", "ops --json"))
@click.argument("name")
@options.as_json
@click.pass_context
def test(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Send a test notice through the channels of a policy now.

    It goes out from here, or from the server that is named, not by the outbox. The command prints what every channel
    answered. Exit code 1 when one failed.
    """
    tested = with_store(ctx, lambda session: session.client.escalations.test(name))
    if as_json:
        output.write_json(tested)
    else:
        for channel in tested.channels:
            output.line(f"{channel.channel}: {'sent' if channel.sent else channel.error}")
    if not all(channel.sent for channel in tested.channels):
        raise click.exceptions.Exit(Exit.ERROR)


def _facts(detail: EscalationDetail) -> list[tuple[str, str]]:
    about = detail.escalation
    facts: list[tuple[str, str | None]] = [
        ("escalation", about.id),
        ("state", about.state),
        ("title", about.title),
        ("source", about.source),
        ("queue", about.queue or None),
        ("kind", about.kind or None),
        ("cause", about.fingerprint or None),
        ("count", f"{about.count:,}"),
        ("first", ages.iso(about.first_at)),
        ("last", ages.iso(about.last_at)),
        ("jobs", " ".join(about.jobs) or None),
        ("policy", _policy(about)),
        ("answer by", None if about.due_at is None else ages.iso(about.due_at)),
        ("snoozed", None if about.snoozed_until is None else f"until {ages.iso(about.snoozed_until)}"),
        ("answered", None if about.acked_at is None else f"{ages.iso(about.acked_at)}{_by(about.acked_by)}"),
        ("note", about.note),
    ]
    for notice in detail.notices:
        at = notice.finished_at or notice.next_at or notice.created_at
        word = {"sent": "sent", "failed": "failed", "pending": "tried again at"}[notice.state]
        sent = f"{notice.event} to {notice.channel}: {word} {ages.iso(at)}"
        facts.append(("notice", sent + (f" ({notice.error})" if notice.error else "")))
    return [(name, text) for name, text in facts if text is not None]


def _by(name: str | None) -> str:
    return f" by {name}" if name else ""
