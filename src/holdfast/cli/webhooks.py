"""`holdfast webhooks list|enable`."""

from datetime import datetime

import click

from holdfast import ages
from holdfast.cli import listing, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell
from holdfast.cli.tables import Attribute, ResourceTable
from holdfast.resources.webhook import Endpoint, EndpointList


def _status(endpoint: Endpoint, now: datetime) -> Cell:
    if endpoint.disabled_at is None:
        return Cell("enabled", style="green")
    why = f": {endpoint.reason}" if endpoint.reason else ""
    since = f"disabled {ages.age(endpoint.disabled_at, now)}{why}"
    return Cell(since, f"disabled {ages.iso(endpoint.disabled_at)}{why}", style="red")


_ENDPOINTS = ResourceTable[Endpoint](
    Attribute("URL", lambda endpoint: endpoint.url, is_flexible=True),
    Attribute("PENDING", lambda endpoint: f"{endpoint.pending:,}", is_number=True),
    Attribute("DELIVERED", lambda endpoint: f"{endpoint.delivered:,}", is_number=True),
    Attribute("FAILED", lambda endpoint: f"{endpoint.failed:,}", is_number=True),
    Attribute("STATUS", lambda endpoint: lambda now: _status(endpoint, now), is_flexible=True),
)


@click.group("webhooks", cls=Noun, examples=("list", "enable https://example.org/hooks"))
def webhooks() -> None:
    """List the endpoints of webhooks, and enable them again."""


@webhooks.command("list", examples=("", "-o id", "--json"))
@listing.form
@click.pass_context
def list_webhooks(ctx: click.Context, *, form: listing.Form) -> None:
    """List the endpoints that webhooks are posted to.

    Shows how many of the last 10,000 messages wait, were delivered and failed, and which endpoints are disabled, since
    when and why. The query of a URL is left out.
    """
    endpoints = with_store(ctx, lambda session: session.client.webhooks.list())
    empty = "no webhook is known yet: none was to be posted, and no endpoint is disabled"
    listing.write(form, EndpointList(endpoints=endpoints), *_ENDPOINTS.of(endpoints), empty=empty)


@webhooks.command("enable", examples=("https://example.org/hooks",))
@click.argument("url")
@options.as_json
@click.pass_context
def enable(ctx: click.Context, *, url: str, as_json: bool) -> None:
    """Let webhooks be posted again to an endpoint that answered 410 Gone.

    URL is the endpoint as `webhooks list` shows it; a query is left out. Messages that wait for it are posted then.
    """

    async def change(session: Session) -> tuple[bool, Endpoint]:
        before = {endpoint.url for endpoint in await session.client.webhooks.list() if not endpoint.enabled}
        endpoint = await session.client.webhooks.enable(url)
        return endpoint.url in before, endpoint

    was_disabled, endpoint = with_store(ctx, change)
    output.answer(endpoint, f"{endpoint.url} {'enabled' if was_disabled else 'was not disabled'}", as_json=as_json)
