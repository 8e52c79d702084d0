"""Endpoints of webhooks, over HTTP."""

from holdfast.client.webhooks import List
from holdfast.remote.link import Link
from holdfast.resources.webhook import EnableRequest, Endpoint, EndpointList


class RemoteWebhooks:
    """The endpoints of a server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(self) -> List[Endpoint]:
        """Read the endpoints that have messages or are disabled."""
        return (await self._link.ask(EndpointList, "GET", "webhooks")).endpoints

    async def enable(self, url: str) -> Endpoint:
        """Let messages be posted again to an endpoint that answered 410 Gone."""
        return await self._link.ask(Endpoint, "POST", "webhooks", "enable", body=EnableRequest(url=url))
