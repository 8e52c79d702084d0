"""`holdfast kinds list`."""

from collections.abc import Iterator

import click

from holdfast.cli import listing, locate
from holdfast.cli.connect import with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.tables import Attribute, ResourceTable
from holdfast.client.definitions import read_definitions
from holdfast.client.kinds import kind_info
from holdfast.resources.kind import KindInfo, KindList

_KINDS = ResourceTable[KindInfo](
    Attribute("KIND", lambda kind: kind.name),
    Attribute("QUEUE", lambda kind: kind.queue),
    Attribute("CADENCE", lambda kind: "; ".join(kind.cadence), is_flexible=True),
    Attribute("HANDLER", lambda kind: kind.handler, is_flexible=True),
    Attribute("POLICY", lambda kind: ", ".join(_policies(kind)), is_flexible=True),
)


@click.group("kinds", cls=Noun, examples=("list", "list --stored --json"))
def kinds() -> None:
    """Look at the kinds of jobs there are."""


@kinds.command("list", examples=("", "--stored", "-o id", "--json"))
@click.option("--stored", is_flag=True, help="Kinds that apps have published, instead of the app's own.")
@listing.form
@click.pass_context
def list_kinds(ctx: click.Context, *, stored: bool, form: listing.Form) -> None:
    """List kinds of jobs: their queue, cadence, handler and policies.

    Of the app, from its code and configuration; where only a store or a server is named, what apps have published
    there.
    """
    if stored or locate.server(ctx) is not None or not (app := locate.app_or_store(ctx))[1]:
        found = with_store(ctx, lambda session: session.client.kinds.list())
    else:
        definitions = read_definitions(app[0].config, app[0].tasks, app[0].schedule_definitions.values())
        found = sorted(map(kind_info, definitions.kinds), key=lambda kind: kind.name)
    empty = "there are none: is the module that defines the tasks imported, or has a worker been started?"
    listing.write(form, KindList(kinds=found), *_KINDS.of(found), empty=empty)


def _policies(kind: KindInfo) -> Iterator[str]:
    if kind.note is not None:
        yield kind.note
    yield f"{kind.max_attempts} attempt{'' if kind.max_attempts == 1 else 's'}"
    yield "no timeout" if kind.timeout_ms is None else f"timeout {kind.timeout_ms / 1_000:g} s"
    if kind.limits:
        yield f"limits {' '.join(kind.limits)}"
    if kind.budget is not None:
        yield f"budget {kind.budget}" + ("" if kind.estimate is None else f" ({kind.estimate} each)")
    if kind.debounce_ms is not None:
        by = "" if kind.debounce_key is None else f" by {kind.debounce_key}"
        yield f"debounced {kind.debounce_ms / 1_000:g} s{by}"
