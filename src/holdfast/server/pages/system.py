"""The pages of the system: its health, services, tables, webhooks, settings, tokens, and who did what."""

from typing import Annotated

from fastapi import Form, Path, Query, Request
from starlette.responses import Response

from holdfast.client.tokens import queue_names
from holdfast.resources.health import HealthLevel
from holdfast.resources.redaction import redact
from holdfast.resources.setting import Setting
from holdfast.resources.token import RoleName
from holdfast.server.health import read_health
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.pages.shown import short
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted, served
from holdfast.server.scoped.client import ScopedClient
from holdfast.stores.bounds import BOUNDS
from holdfast.telemetry.redaction import hide

routes = Routes("pages", in_schema=False)

_ENTRIES = 50
_COUNTED = 10_000
_LOOK_S = 5.0
_MEASURE_S = 10.0
_ROLES = ("viewer", "operator", "admin")


@routes.get("/system", Permission.LOOK, whole=True)
async def system_page(request: Request, client: Seen) -> Response:
    """Show how the store is, and what the services do."""
    here = served(request)
    health = await read_health(here)
    found = redact([check for check in health.checks if check.name != "table"])  # tables have a page of their own
    services = await client.services.list()
    by_name = {service.name: service for service in services}
    return page(
        request,
        "system.html",
        at="system",
        tab="health",
        checks=found,
        worst=max((list(HealthLevel).index(check.level) for check in found), default=0),
        schema=next((check.message for check in found if check.name == "schema"), None),
        told=await client.recent("database", _LOOK_S, client.figures.database),
        is_delivered=here.settings.delivery is not None,
        announced=by_name["announcements"],
        retention=by_name["retention"],
        endpoints=await client.webhooks.list(),
        services=services,
        leaders=await client.services.leaders(),
        has_metrics=here.metrics is not None,
        hide=hide,
    )


@routes.get("/system/tables", Permission.LOOK, whole=True)
async def tables_page(request: Request, client: Seen) -> Response:
    """Show how large each table is, and what bounds it."""
    sizes = await client.recent("tables", _MEASURE_S, client.figures.tables)
    return page(
        request,
        "tables.html",
        at="system",
        tab="tables",
        sizes=sorted(
            ((size, BOUNDS[size.name].stays) for size in sizes), key=lambda row: (-(row[0].size or 0), -row[0].rows)
        ),
        taken=sum(size.size or 0 for size in sizes),
        told=await client.recent("database", _LOOK_S, client.figures.database),
        counted=_COUNTED,
    )


@routes.get("/system/webhooks", Permission.LOOK, whole=True)
async def webhooks_page(request: Request, client: Seen) -> Response:
    """Show the endpoints that webhooks are posted to."""
    return page(
        request, "webhooks.html", at="system", tab="webhooks", endpoints=redact(await client.webhooks.list()), hide=hide
    )


@routes.post("/system/webhooks/enable", Permission.ENABLE_ENDPOINTS, whole=True)
async def enable_webhook_here(request: Request, client: Seen, endpoint: str = Form(max_length=2_000)) -> Response:
    """Let webhooks be posted again to an endpoint that answered 410 Gone."""
    noted(request, endpoint=endpoint)
    await client.webhooks.enable(endpoint)
    return turned(request, url(request, "system", "webhooks"), "webhooks are posted there again")


@routes.get("/system/settings", Permission.LOOK, whole=True)
async def settings_page(
    request: Request,
    client: Seen,
    changed: bool = Query(True),  # noqa: FBT001, FBT003 - a query
) -> Response:
    """Show every setting with where it comes from; secrets are covered."""
    rows = (await client.settings.list()).settings
    shown = [row for row in rows if not changed or row.origin != "default"]
    return page(
        request,
        "settings.html",
        at="system",
        tab="settings",
        settings=[(row.path, _text(row), row.origin, row.changed_by) for row in redact(shown)],
        hidden=len(rows) - len(shown),
        changed=changed,
        overrides=[(row, _text(row)) for row in redact(rows) if row.changed_at is not None],
    )


@routes.post("/system/settings/reset", Permission.CHANGE_SETTINGS, whole=True)
async def reset_setting_here(request: Request, client: Seen, path: str = Form(max_length=200)) -> Response:
    """Let a setting be again as apps say."""
    noted(request, path=path)
    await client.settings.reset(path)
    return turned(request, url(request, "system", "settings"), f"{path} is again as apps say")


@routes.get("/system/audit", Permission.READ_AUDIT)
async def audit_page(
    request: Request,
    client: Seen,
    actor: str = Query("", max_length=200),
    action: str = Query("", max_length=100),
    before: int | None = Query(None, ge=1, le=2**63 - 1),
) -> Response:
    """Show who has done what, the latest first."""
    found = await client.audit.list(actor=actor or None, action=action or None, limit=_ENTRIES, before=before)
    return page(
        request,
        "audit.html",
        at="system",
        tab="audit",
        entries=redact(found.entries),
        next=found.next,
        back_to=found.searched_to,
        actor=actor,
        action=action,
    )


@routes.get("/system/tokens", Permission.MANAGE_TOKENS)
async def tokens_page(request: Request, client: Seen) -> Response:
    """Show who may come in by token."""
    return await _tokens(request, client)


@routes.post("/system/tokens", Permission.MANAGE_TOKENS)
async def create_token_here(
    request: Request,
    *,
    client: Seen,
    name: str = Form(min_length=1, max_length=64),
    role: Annotated[RoleName, Form()] = "viewer",
    queues: str = Form("", max_length=4_000),
    expires_in: str = Form("", max_length=40),
) -> Response:
    """Make a token; its secret is shown on this page and never again."""
    own = [queue for queue in queues.replace(",", " ").split() if queue] or None
    noted(request, name=name, role=role, queues=queue_names(own), expires_in=expires_in or None)
    made = await client.tokens.create(name, role, queues=own, expires_in=expires_in or None)
    noted(request, token=int(made.id))
    return await _tokens(request, client, made.secret, made.name)


@routes.post("/system/tokens/{number}/revoke", Permission.MANAGE_TOKENS)
async def revoke_token_here(request: Request, client: Seen, number: int = Path(ge=0, le=2**53 - 1)) -> Response:
    """End a token, and the logins that began with it."""
    revoked = await client.tokens.revoke(number)
    return turned(request, url(request, "system", "tokens"), f"the token {revoked.name} is revoked")


async def _tokens(
    request: Request, client: ScopedClient, secret: str | None = None, named: str | None = None
) -> Response:
    return page(
        request,
        "tokens.html",
        at="system",
        tab="tokens",
        tokens=await client.tokens.list(),
        own=str(client.principal.token_id),
        roles=_ROLES,
        secret=secret,
        named=named,
    )


def _text(setting: Setting) -> str:
    return "" if setting.value is None else short(setting.value)
