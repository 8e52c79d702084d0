"""Going through the pages of a furnished store, as a browser without scripts does."""

import httpx2

from holdfast import Holdfast
from tests.server.reading import Form, Reading, read

PAGES = (
    "/queues",
    "/queues/high",
    "/queues/high?within=7d",
    "/schedules",
    "/schedules/nightly",
    "/failures",
    "/dead-letters",
    "/dead-letters?kind=sink",
    "/escalations",
    "/escalations?show=open",
    "/escalations/1",
    "/budgets",
    "/budgets/ai",
    "/budgets/ai?by=actor",
    "/limits",
    "/workers",
    "/system",
    "/system/tables",
    "/system/webhooks",
    "/system/settings",
    "/system/audit",
    "/system/tokens",
)


async def shown(web: httpx2.AsyncClient, path: str) -> Reading:
    """Open a page, which must be right."""
    answer = await web.get(path)
    assert answer.status_code == 200, (path, answer.text[-800:])
    page = read(answer.text)
    assert page.faults == [], path
    return page


async def sent(web: httpx2.AsyncClient, path: str, action: str, **fields: str) -> httpx2.Response:
    """Fill in a form of a page and send it, as a browser without scripts does."""
    page = await shown(web, path)
    found = [form for form in page.forms if form.action.endswith(action)]
    assert found, (action, [form.action for form in page.forms])
    return await posted(web, found[0], **fields)


async def posted(web: httpx2.AsyncClient, form: Form, **fields: str) -> httpx2.Response:
    unknown = set(fields) - set(form.fields)
    assert not unknown, (unknown, form)
    return await web.post(form.action, data=form.fields | fields, headers={"origin": "http://127.0.0.1"})


def links(page: Reading) -> list[str]:
    return [given["href"] for tag, given in page.tags if tag == "a" and "href" in given]


async def escalation_of(app: Holdfast, queue: str) -> str:
    return next(one.id for one in (await app.escalations.list()).escalations if one.queue == queue)


async def group_of(app: Holdfast, kind: str) -> str:
    return (await app.dead_letters.list(kind=kind)).groups[0].id
