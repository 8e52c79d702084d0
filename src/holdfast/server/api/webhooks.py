"""Webhooks: the endpoints that messages are posted to."""

from fastapi import Request

from holdfast.resources.webhook import EnableRequest, Endpoint, EndpointList
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted

routes = Routes("webhooks", "/webhooks")


@routes.get("", Permission.LOOK, whole=True, summary="List endpoints of webhooks")
async def list_endpoints(client: Seen) -> EndpointList:
    """Read the endpoints that webhooks are posted to, and which of them are disabled."""
    return EndpointList(endpoints=await client.webhooks.list())


@routes.post("/enable", Permission.ENABLE_ENDPOINTS, whole=True, summary="Enable an endpoint")
async def enable_endpoint(asked: EnableRequest, client: Seen, request: Request) -> Endpoint:
    """Let webhooks be posted again to an endpoint that answered 410 Gone."""
    noted(request, endpoint=asked.url)
    return await client.webhooks.enable(asked.url)
