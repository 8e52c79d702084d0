"""`holdfast config apply|set|reset`: the verbs of the noun `config` that change something."""

import asyncio
from typing import Any

import click
import msgspec

from holdfast.app import Holdfast
from holdfast.cli import locate, options, output
from holdfast.cli.config import config
from holdfast.cli.connect import session, with_store
from holdfast.client.definitions import Definitions, read_definitions
from holdfast.client.settling import publish, settle
from holdfast.resources.setting import SettingReset

__all__ = ["config"]


@config.command("apply", examples=("", "-A mypackage.jobs:app"))
@click.pass_context
def apply(ctx: click.Context) -> None:
    """Publish what the app and its configuration define.

    A worker does it at its start. Queues, limits and budgets hold from then on, for everybody; jobs of a kind that has
    another queue now move there. Without an app (--store, or the store of a configuration file) no kinds are
    published.
    """
    app, _ = locate.app_or_store(ctx)
    definitions = read_definitions(app.config, app.tasks, app.schedule_definitions.values())
    moved = asyncio.run(_apply(app, definitions))
    sorts = [path.partition(".")[0] for path in definitions.policies]
    counts = [f"{sorts.count(sort)} {sort}" for sort in ("queues", "limits", "budgets")]
    output.line(f"published: {', '.join(counts)}, {len(definitions.kinds)} kinds")
    for queue in dict.fromkeys(moved):
        output.line(f"waiting jobs have moved to {queue}")


async def _apply(app: Holdfast, definitions: Definitions) -> list[str]:
    async with session(app) as opened:
        moved = await publish(opened.store, app.config, definitions)
        await settle(opened.store, is_forced=True)
        if moved:
            opened.client.delivery.hint(moved)
        return moved


@config.command("set", examples=("limits.tenant.concurrency 5 --reason 'slow supplier'", "budgets.ai.amount '$750'"))
@click.argument("path")
@click.argument("value")
@options.reason
@options.actor
@options.as_json
@click.pass_context
def set_value(
    ctx: click.Context, *, path: str, value: str, reason: str | None, actor: str | None, as_json: bool
) -> None:
    """Change one setting of a limit, budget, queue or service.

    For everybody, within five seconds, and until it is reset: starts and deployments do not change it. VALUE is JSON
    (5, true, null) or text ('30s', '$500').
    """
    setting = with_store(
        ctx, lambda session: session.client.settings.set(path, _read(value), actor=actor, reason=reason)
    )
    output.answer(setting, f"{path} is set", as_json=as_json)


@config.command("reset", examples=("limits.tenant.concurrency",))
@click.argument("path")
@options.as_json
@click.pass_context
def reset(ctx: click.Context, *, path: str, as_json: bool) -> None:
    """Let a setting be again what apps and their files say."""
    was_changed = with_store(ctx, lambda session: session.client.settings.reset(path))
    text = f"{path} is reset" if was_changed else f"{path} was not changed"
    output.answer(SettingReset(reset=was_changed), text, as_json=as_json)


def _read(value: str) -> Any:
    """Read JSON; what is none is text."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError):
        return value
