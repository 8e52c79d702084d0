"""Webhooks: the endpoints that messages are posted to, and enabling them again."""

import contextlib
from typing import Protocol

from holdfast.client.repeat import until_answered
from holdfast.errors import EndpointNotFound, InvalidValue
from holdfast.resources.webhook import Endpoint
from holdfast.stores.deliveries import DeliveryStore, EndpointRow
from holdfast.webhooks.address import Allowed, check_url

List = list  # one of the verbs has that name

_NAMED = 10


class Webhooks(Protocol):
    """What can be asked of the endpoints of webhooks, and done to them."""

    async def list(self) -> List[Endpoint]:
        """Read the endpoints that have messages or are disabled."""

    async def enable(self, url: str) -> Endpoint:
        """Let messages be posted again to an endpoint that answered 410 Gone.

        The query of the URL is left out. EndpointNotFound when nothing is known of the endpoint.
        """


class LocalWebhooks:
    """The endpoints of one store."""

    def __init__(self, store: DeliveryStore, deadline_s: float, allowed: Allowed) -> None:
        self._store = store
        self._deadline_s = deadline_s
        self._allowed = allowed

    async def list(self) -> List[Endpoint]:
        """Read the endpoints that have messages or are disabled."""
        return [_endpoint(row) for row in await self._store.list_endpoints()]

    async def enable(self, url: str) -> Endpoint:
        """Let messages be posted again to an endpoint that answered 410 Gone."""
        address = self._address(url)
        known = [endpoint.url for endpoint in await self.list()]
        if address not in known:
            message = f"there is no endpoint {address}; known are {', '.join(known[:_NAMED]) or 'none'}"
            raise EndpointNotFound(message)
        await until_answered(lambda _: self._store.enable_endpoint(address), self._deadline_s, f"enable {address}")
        enabled = {endpoint.url: endpoint for endpoint in await self.list()}
        return enabled.get(address, Endpoint(url=address))  # that it was disabled was all that was known of it

    def _address(self, url: str) -> str:
        with contextlib.suppress(InvalidValue):  # one that could not be registered now may have been before
            url = check_url(url, self._allowed).url
        return url.partition("?")[0]


def _endpoint(row: EndpointRow) -> Endpoint:
    return Endpoint(
        url=row.endpoint,
        enabled=row.disabled_at is None,
        disabled_at=row.disabled_at,
        reason=row.reason,
        pending=row.pending,
        delivered=row.delivered,
        failed=row.failed,
    )
