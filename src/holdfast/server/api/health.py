"""The health of the store, its queues and its workers: what `holdfast doctor` finds."""

from fastapi import Request

from holdfast.resources.health import HealthReport
from holdfast.server.health import read_health
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, served

routes = Routes("system", "/health")


@routes.get("", Permission.LOOK, whole=True, summary="Check the health")
async def check_health(request: Request) -> HealthReport:
    """Check the store, its schema, its clock, queues and workers. Answers 200 also where something is wrong."""
    return await read_health(served(request))
