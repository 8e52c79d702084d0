"""Services, over HTTP."""

from holdfast.client.services import PREFIX, List
from holdfast.duration import Duration
from holdfast.errors import InvalidValue, shown
from holdfast.remote.link import refuse_actor
from holdfast.remote.namespace import RemoteNamespace
from holdfast.resources.queue import SettingRequest
from holdfast.resources.service import Leader, ServiceInfo, ServiceList
from holdfast.resources.setting import Setting, SettingReset

_PARTS = ("interval", "batch", "enabled")


class RemoteServices(RemoteNamespace):
    """The services of a server."""

    path = "services"

    async def list(self) -> List[ServiceInfo]:
        """Read how every service is set, and what it did under the current leader."""
        return (await self._all()).services

    async def leaders(self) -> List[Leader]:
        """Read which process runs the services."""
        return (await self._all()).leaders

    async def set(
        self,
        name: str,
        *,
        interval: Duration | None = None,
        batch: int | None = None,
        enabled: bool | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> ServiceInfo:
        """Change how a service runs for all apps."""
        refuse_actor(actor)
        for part, value in zip(_PARTS, (interval, batch, enabled), strict=True):
            if value is not None:
                body = SettingRequest(value=value, reason=reason)
                await self._link.ask(Setting, "PUT", "settings", f"{PREFIX}{name}.{part}", body=body)
        return await self._service(name)

    async def reset(self, name: str) -> ServiceInfo:
        """Let a service run again as apps and their configuration say."""
        for part in _PARTS:
            await self._link.ask(SettingReset, "DELETE", "settings", f"{PREFIX}{name}.{part}")
        return await self._service(name)

    async def _all(self) -> ServiceList:
        return await self._get(ServiceList)

    async def _service(self, name: str) -> ServiceInfo:
        for service in await self.list():
            if service.name == name:
                return service
        message = f"there is no service {shown(name)}"
        raise InvalidValue(message)
