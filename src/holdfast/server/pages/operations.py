"""Bulk operations as pages show them: what a page says of one that was started, and the latest ones."""

from holdfast.resources.bulk import BulkOperation
from holdfast.resources.redaction import redact
from holdfast.server.scoped.client import ScopedClient

_LATEST = 5


def started(operation: BulkOperation) -> str:
    """Say that an operation was started."""
    return f"bulk operation {operation.id} has begun: {operation.verb} {operation.expected} jobs"


async def latest_operations(client: ScopedClient) -> list[BulkOperation]:
    """Read the latest operations that the caller may see."""
    return redact(await client.bulk.list(_LATEST))
