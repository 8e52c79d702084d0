"""Endpoints of webhooks, over HTTP."""

from holdfast.client.webhooks import List
from holdfast.remote.namespace import RemoteNamespace
from holdfast.resources.webhook import EnableRequest, Endpoint, EndpointList


class RemoteWebhooks(RemoteNamespace):
    """The endpoints of a server."""

    path = "webhooks"

    async def list(self) -> List[Endpoint]:
        """Read the endpoints that have messages or are disabled."""
        return (await self._get(EndpointList)).endpoints

    async def enable(self, url: str) -> Endpoint:
        """Let messages be posted again to an endpoint that answered 410 Gone."""
        return await self._change("POST", Endpoint, "enable", body=EnableRequest(url=url))
