"""Messages to real receivers: valid, retried through an outage, in order, once; and no secret anywhere else."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook

from holdfast import public_id
from holdfast.policies.channels import Email, PagerDuty, SignedWebhook, Slack
from holdfast.policies.escalation import Escalation
from holdfast.services.notices import GIVE_UP_MS
from holdfast.stores.store import Store
from tests.support import raw
from tests.support.builders import enqueue
from tests.support.clock import Clock
from tests.support.notice_receiver import Mailbox, Receiver, text_of
from tests.support.ports import free_port
from tests.support.staff import KEY, SECRET, Staff, alarm, channels

LINK = "https://jobs.example.org/jobs/{id}?e={escalation}"


def told_by(*names: str, **changes: Any) -> Escalation:
    return Escalation(name="ops", channels=names, **changes)


async def test_pagerduty_gets_events_of_version_2(store: Store, clock: Clock, receiver: Receiver) -> None:
    staff = Staff(store, told_by("pager", link=LINK), to=channels(receiver))
    await raw.raise_alarm(store, alarm(details='{"error": "OSError: disk full", "attempt": 5, "max_attempts": 5}'))
    await staff.work()
    await raw.raise_alarm(store, alarm())  # a repeat says nothing new
    await staff.work()
    (row,) = await staff.rows()
    await store.ack_escalation(row.id, actor="ann", note=None)
    await staff.work()
    await clock.advance(hours=1)
    await staff.work()
    trigger, acknowledge, resolve = receiver.bodies
    assert {path for path, _, _ in receiver.requests} == {"/v2/enqueue"}
    for event, action in ((trigger, "trigger"), (acknowledge, "acknowledge"), (resolve, "resolve")):
        assert (event["routing_key"], event["event_action"]) == (KEY, action)
        assert event["dedup_key"] == trigger["dedup_key"]
        assert 0 < len(event["dedup_key"]) <= 255
    payload = trigger["payload"]
    assert payload["summary"] == "resize failed"
    assert payload["severity"] in {"critical", "error", "warning", "info"}
    assert (payload["source"], payload["component"], payload["group"], payload["class"]) == (
        *("high", "resize", "ops"),
        "failed",
    )
    assert payload["custom_details"]["last error"] == "OSError: disk full"
    assert payload["custom_details"]["attempts"] == "5 of 5"
    assert trigger["links"][0]["href"] == f"https://jobs.example.org/jobs/?e={row.id}"
    assert set(acknowledge) == {"routing_key", "event_action", "dedup_key"}


async def test_slack_gets_blocks_within_its_bounds(store: Store, clock: Clock, receiver: Receiver) -> None:
    staff = Staff(store, told_by("chat", fields=["url", "args.password", "missing"]), to=channels(receiver))
    job_id = await enqueue(
        store, kind="resize", queue="high", payload='{"url": "http://x/?a<b&c", "password": "hunter2"}'
    )
    await raw.raise_alarm(store, alarm(job_id=job_id, title="<!channel> " + "x" * 4_000))
    await staff.work()
    (message,) = receiver.bodies
    header, *sections = message["blocks"]
    assert (header["type"], header["text"]["type"]) == ("header", "plain_text")
    assert len(header["text"]["text"]) <= 150
    text = "\n".join(section["text"]["text"] for section in sections)
    assert all(len(section["text"]["text"]) <= 3_000 for section in sections)
    assert "*url* http://x/?a&lt;b&amp;c" in text
    assert public_id.encode(job_id) in text
    assert "<!channel>" not in message["text"] + text
    assert "hunter2" not in str(message)


async def test_a_webhook_is_signed(store: Store, clock: Clock, receiver: Receiver) -> None:
    staff = Staff(store, told_by("hook"), to=channels(receiver))
    await raw.raise_alarm(store, alarm())
    await staff.work()
    ((_, headers, body),) = receiver.requests
    said = Webhook(SECRET).verify(body, headers)
    assert (said["type"], said["data"]["title"], said["data"]["kind"]) == (
        "escalation.opened",
        "resize failed",
        "resize",
    )


async def test_mail_reaches_everybody_and_names_what_happened(store: Store, clock: Clock, mailbox: Mailbox) -> None:
    staff = Staff(store, told_by("mail"), to=channels(mailbox=mailbox))
    await raw.raise_alarm(
        store, alarm(title="resize failed\r\nBcc: evil@example.org", details='{"error": "OSError: full"}')
    )
    await staff.work()
    (mail,) = mailbox.mails
    assert (mail["To"], mail["From"]) == ("ops@example.org, lead@example.org", "jobs@example.org")
    assert mail["Subject"] is not None
    assert "resize failed" in mail["Subject"]
    assert mail["Bcc"] is None
    assert mail["Message-ID"]
    assert mail["Auto-Submitted"] == "auto-generated"
    assert "last error: OSError: full" in text_of(mail)


@pytest.mark.parametrize("answer", ["503 Away", "429 Too Many\r\nretry-after: 120"])
async def test_http_is_retried_through_an_outage_and_arrives_once(
    store: Store, clock: Clock, receiver: Receiver, answer: str
) -> None:
    staff = Staff(store, told_by("pager"), to=channels(receiver))
    receiver.answers = [answer, answer]
    await raw.raise_alarm(store, alarm())
    await staff.work()
    assert receiver.requests == []
    waits: list[timedelta] = []
    while not receiver.requests:
        due_ms = await store.next_notice_ms(["pager"])
        assert due_ms is not None
        assert due_ms > 0, "it does not hammer"
        waits.append(timedelta(milliseconds=due_ms))
        await clock.advance(waits[-1])
        await Staff(store, told_by("pager"), to=channels(receiver)).work()  # a process that has just started
    assert len(receiver.requests) == 1
    assert len(waits) == 2
    if "retry-after" in answer:
        assert waits[0] >= timedelta(seconds=120)
    await clock.advance(minutes=10)
    await staff.work()
    assert len(receiver.requests) == 1


async def test_nobody_listens_for_a_while(store: Store, clock: Clock) -> None:
    receiver, mailbox = Receiver(), Mailbox()
    receiver.port, mailbox.port = free_port(), free_port()
    staff = Staff(store, told_by("pager", "chat", "mail"), to=channels(receiver, mailbox))
    await raw.raise_alarm(store, alarm())
    await staff.work()
    async with receiver.listening(), mailbox.listening():
        mailbox.answers = ["451 Try again later"]
        for _ in range(2):
            await clock.advance(minutes=1)
            await staff.work()
    assert (len(receiver.requests), len(mailbox.mails)) == (2, 1)


async def test_the_end_waits_for_the_beginning(store: Store, clock: Clock, receiver: Receiver) -> None:
    staff = Staff(store, told_by("pager"), to=channels(receiver))
    receiver.answers = ["503 Away"]
    await raw.raise_alarm(store, alarm())
    await staff.work()
    (row,) = await staff.rows()
    await store.ack_escalation(row.id, actor=None, note=None)
    await staff.work()
    assert receiver.requests == []
    await clock.advance(seconds=10)
    await staff.work()
    await staff.work()
    assert [body["event_action"] for body in receiver.bodies] == ["trigger", "acknowledge"]


async def test_what_is_refused_or_too_old_is_given_up_and_logged(
    store: Store, clock: Clock, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    staff = Staff(store, told_by("pager", "chat"), to=channels(receiver))
    receiver.answers = ["400 Bad Request", "503 Away"]
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    for name in ("pager", "chat"):  # one after the other, so that each gets its answer
        (notice,) = await store.claim_notices([name], 1, 0)
        await staff.sending._try(notice)  # one message alone
    await clock.advance(timedelta(milliseconds=GIVE_UP_MS))
    receiver.answers = ["503 Away"]
    await staff.work()
    (row,) = await staff.rows(is_open=False)
    found = await store.get_escalation(row.id)
    assert found is not None
    states = {(notice.channel, notice.event): (notice.state, notice.error) for notice in found[1]}
    assert states["pager", "trigger"] == ("failed", "answered 400: no")
    assert states["chat", "trigger"] == ("failed", "answered 503: no")
    assert [record.levelname for record in caplog.records if "was given up" in record.message] == ["ERROR", "ERROR"]


async def test_two_senders_send_once(store: Store, clock: Clock, receiver: Receiver) -> None:
    staff = Staff(store, told_by("chat"), to=channels(receiver))
    for number in range(10):
        await raw.raise_alarm(store, alarm(f"error {number}"))
    await staff.escalating.run(500)
    others = [Staff(store, told_by("chat"), to=channels(receiver)) for _ in range(3)]
    for _ in range(4):
        await asyncio.gather(*(other.sending.run(8) for other in others))
    assert len(receiver.requests) == 10


async def test_a_sender_that_died_is_replaced_when_its_lease_ends(
    store: Store, clock: Clock, receiver: Receiver
) -> None:
    staff = Staff(store, told_by("chat"), to=channels(receiver))
    await raw.raise_alarm(store, alarm())
    await staff.escalating.run(500)
    assert len(await store.claim_notices(["chat"], 8, 30_000)) == 1
    await staff.work()
    assert receiver.requests == []
    await clock.advance(seconds=30)
    await staff.work()
    assert len(receiver.requests) == 1


async def test_secrets_stay_where_they_belong(
    store: Store, clock: Clock, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    to = channels(receiver)
    staff = Staff(store, told_by("pager", "chat", "hook"), to=to)
    receiver.answers = ["503 Away"] * 3
    await raw.raise_alarm(store, alarm())
    await staff.work()
    (row,) = await staff.rows()
    kept = str(await store.get_escalation(row.id)) + str(await store.claim_notices(list(to), 10, 0))
    seen = caplog.text + kept + repr(staff.settings) + repr(to)
    for secret in (KEY, SECRET, SECRET.removeprefix("whsec_"), "hushhush"):
        assert secret not in seen


def test_channels_never_show_their_secrets() -> None:
    shown = [
        PagerDuty(key=KEY),
        Slack(url="https://hooks.slack.com/services/T0/B0/hushhush"),
        SignedWebhook(url="https://example.org/", secret=SECRET),
        Email(to="a@example.org", sender="b@example.org", username="u", password="hushhush"),
    ]
    assert not any(secret in repr(shown) for secret in (KEY, SECRET, "hushhush"))
