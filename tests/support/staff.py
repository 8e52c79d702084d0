"""The two services together, as a leader runs them."""

from typing import Any

from holdfast import Holdfast
from holdfast.config import Settings
from holdfast.policies.channels import Channel, Email, PagerDuty, SignedWebhook, Slack
from holdfast.policies.escalation import Escalation
from holdfast.services.escalations import EscalationsService
from holdfast.services.notices import NoticesService
from holdfast.stores.alarms import Alarm, EscalationRow
from holdfast.stores.store import Store
from holdfast.webhooks.signature import new_secret
from tests.support.notice_receiver import Mailbox, Receiver

KEY = "0123456789abcdef0123456789abcdef"
SECRET = new_secret()


def channels(receiver: Receiver | None = None, mailbox: Mailbox | None = None) -> dict[str, Channel]:
    """Channels that lead to receivers on this machine."""
    url = "http://127.0.0.1:9" if receiver is None else receiver.url()[:-1]
    port = 9 if mailbox is None else mailbox.port
    return {
        "pager": PagerDuty(key=KEY, url=f"{url}/v2/enqueue"),
        "chat": Slack(url=f"{url}/services/T0/B0/hushhush"),
        "hook": SignedWebhook(url=f"{url}/hook", secret=SECRET),
        "mail": Email(
            to=["ops@example.org", "lead@example.org"], sender="jobs@example.org", host="127.0.0.1", port=port
        ),
    }


def settings_of(*policies: Escalation, to: dict[str, Channel] | None = None) -> Settings:
    return Holdfast("sqlite://", channels=channels() if to is None else to, escalations=policies).config


class Staff:
    """Escalates and sends, one round at a time."""

    def __init__(self, store: Store, *policies: Escalation, to: dict[str, Channel] | None = None) -> None:
        self.store = store
        self.settings = settings_of(*policies, to=to)
        self.escalating = EscalationsService(store, self.settings)
        self.sending = NoticesService(store, self.settings)

    async def work(self) -> None:
        """Do one round of both."""
        await self.escalating.run(500)
        while (await self.sending.run(8)).has_more:
            pass

    async def rows(self, **which: Any) -> list[EscalationRow]:
        asked = {"is_open": None, "policy": None, "limit": 100, "before": None} | which
        return await self.store.list_escalations(**asked)

    async def events(self, row: EscalationRow) -> list[tuple[str, str]]:
        """What was written about an escalation, as channel and event."""
        found = await self.store.get_escalation(row.id)
        assert found is not None
        return [(notice.channel, notice.event) for notice in found[1]]


def alarm(fingerprint: str = "ValueError@work.py:run", **changes: Any) -> Alarm:
    """An alarm of the policy `ops`."""
    given: dict[str, Any] = {"source": "failed", "policy": "ops", "queue": "high", "kind": "resize"}
    return Alarm(**given | {"title": "resize failed", "fingerprint": fingerprint} | changes)
