"""`holdfast serve`."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from holdfast.app import Holdfast
from holdfast.cli import connect, locate, options, output
from holdfast.cli.grammar import Verb
from holdfast.server import require_server
from holdfast.services.secrecy import keep_secrets
from holdfast.telemetry import logs

if TYPE_CHECKING:
    from holdfast.server.settings import ServerSettings

_EXAMPLES = (
    "-A mypackage.jobs:app",
    "--store postgresql://localhost/shop",
    "-A mypackage.jobs:app --host 0.0.0.0 --url https://jobs.example.org",
    "-A mypackage.jobs:app --proxy 10.0.0.0/8 --user-header X-Forwarded-User",
)


@click.command("serve", cls=Verb, examples=_EXAMPLES)
@click.option("--host", metavar="ADDRESS", help="Listen on this address. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65_535), metavar="N", help="Listen on this port. [default: 8470]")
@click.option("--url", metavar="URL", help="The address that people see, if it is another one: behind a proxy.")
@click.option("--host-name", "hosts", multiple=True, metavar="NAME", help="A further name to be asked by; repeatable.")
@click.option("--proxy", "proxies", multiple=True, metavar="NETWORK", help="A proxy to believe; repeatable.")
@click.option("--user-header", metavar="NAME", help="The header in which such a proxy says who asks.")
@click.option("--role-header", metavar="NAME", help="The header in which it says their role.")
@click.option("--allow-unknown", is_flag=True, default=None, help="Take jobs of kinds that no worker has published.")
@click.option("--metrics", is_flag=True, help="Count, and give the numbers at /metrics to those who may look.")
@click.option("--link", is_flag=True, help="Refuse callers without a login, and print a link that lets in once.")
@options.log_level
@options.log_format
@click.pass_context
def serve(ctx: click.Context, /, *, metrics: bool, link: bool, log_level: str, log_format: str, **options: Any) -> None:
    """Serve the dashboard and the HTTP API.

    Without any token it answers to this machine alone, and lets everybody there in; with tokens (`tokens create`), or a
    proxy that says who asks, it may listen on other addresses. Options lie over the section `server` of the
    configuration file.
    """
    require_server()
    app, knows_tasks = locate.app_or_store(ctx)
    connect.require_kept(app.config)
    if not knows_tasks:
        connect.require_present(app.config)
    keep_secrets(app.config)
    settings = replace(app.server_settings(), **_given(options))
    logs.set_up(log_level.upper(), log_format)
    asyncio.run(_serve(app, settings, knows_tasks=knows_tasks, is_metered=metrics, has_link=link))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Pick the options that were given."""
    return {name: value for name, value in options.items() if value is not None and not _is_nothing(value)}


def _is_nothing(value: Any) -> bool:
    return isinstance(value, Sequence) and not value


async def _serve(
    app: Holdfast, settings: "ServerSettings", *, knows_tasks: bool, is_metered: bool, has_link: bool
) -> None:
    from holdfast.server import serving  # noqa: PLC0415 - only this command needs the web packages
    from holdfast.server.application import make_application  # noqa: PLC0415 - the same

    async with app:
        is_open = not has_link and await serving.lets_in_anybody(app.store, settings)
        with serving.listen(settings) as listening:
            served = app.served(settings, is_open=is_open, is_metered=is_metered)
            application = make_application(served if knows_tasks else replace(served, tasks=None))
            address = serving.address_of(settings, listening)
            output.line(f"Holdfast is at {address}")
            if is_open:
                output.note("there is no token, so everybody on this machine is let in; `tokens create` makes one")
            if has_link:
                output.line(f"Log in, once and within 10 minutes: {await serving.make_link(app.store, address)}")
            await serving.serve(application, settings, listening)
