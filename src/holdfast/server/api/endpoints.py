"""Endpoints: the places that webhooks are posted to."""

from fastapi import Request
from pydantic import Field

from holdfast.server.api.shape import Asked, Moment, Shape, Told
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.stores.deliveries import Endpoint

routes = Routes("endpoints", "/endpoints")


class EndpointShape(Shape):
    """A place that webhooks are posted to; the counts are those of the last 10,000 messages."""

    endpoint: str = Field(examples=["https://shop.example.org/hooks/jobs"])
    enabled: bool = Field(examples=[True])
    disabled_at: Moment | None = Field(examples=[None])
    reason: Told | None = Field(examples=[None])
    pending: int = Field(examples=[0])
    delivered: int = Field(examples=[311])
    failed: int = Field(examples=[2])


class EndpointList(Shape):
    """All places that webhooks were posted to of late."""

    endpoints: list[EndpointShape]


class Enable(Asked):
    """Which one."""

    endpoint: str = Field(min_length=1, max_length=2_000, examples=["https://shop.example.org/hooks/jobs"])


class Enabled(Shape):
    """Whether it was disabled before."""

    enabled: bool = Field(examples=[True])


@routes.get("", Permission.LOOK, whole=True, summary="List endpoints")
async def list_endpoints(sight: Seen) -> EndpointList:
    """Read the places that webhooks are posted to, and which of them are disabled."""
    return EndpointList(endpoints=[endpoint_shape(row) for row in await sight.client.endpoints()])


@routes.post("/enable", Permission.ENABLE_ENDPOINTS, whole=True, summary="Enable an endpoint")
async def enable_endpoint(asked: Enable, sight: Seen, request: Request) -> Enabled:
    """Let webhooks be posted again to a place that answered 410 Gone."""
    noted(request, endpoint=asked.endpoint)
    return Enabled(enabled=await sight.client.enable_endpoint(asked.endpoint))


def endpoint_shape(row: Endpoint) -> EndpointShape:
    """Show an endpoint."""
    return EndpointShape(
        endpoint=row.endpoint,
        enabled=row.disabled_at is None,
        disabled_at=row.disabled_at,
        reason=row.reason,
        pending=row.pending,
        delivered=row.delivered,
        failed=row.failed,
    )
