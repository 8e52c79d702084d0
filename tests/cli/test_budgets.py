"""`budgets`: how far each is, who has spent what, what is in doubt, and what people change."""

import json
from typing import Any

import pytest

from holdfast import Budget, Context, Holdfast, public_id
from tests.cli.conftest import Shop
from tests.support.budgets import reserve, spend
from tests.support.builders import crash, running


@pytest.fixture
def spent(shop: Shop) -> Shop:
    """Give a program whose budget of ten dollars has 8.50 spent, and one more in doubt."""

    async def fill(store: Any) -> None:
        program = Holdfast("sqlite://", budgets=[Budget(name="ai", amount="$10", period="day", tz="UTC")])

        @program.task(budget="ai", kind="work")
        async def work(ctx: Context) -> None:
            await ctx.spend(8, note="red\x1b[31m")
            await ctx.spend(3, "tokens")

        async with program.open_on(store):
            await work.using(actor="alice").enqueue()
            await program.run_worker(until="empty")
            job = await running(store)
            await reserve(store, job, 1_500_000)
            await spend(store, job, 500_000)
            await crash(store, job)

    shop.app = Holdfast(shop.url, schema=shop.schema)
    shop.on_store(_closed(fill))
    return shop


def _closed(fill: Any) -> Any:
    """Hand over a store that nobody has open."""

    async def work(store: Any) -> None:
        await store.close()
        await fill(store)
        await store.open()

    return work


def test_nothing_is_defined(sqlite_shop: Shop) -> None:
    sqlite_shop.ok("migrate", "up")
    assert "no budget holds" in sqlite_shop("budgets", "list").stderr
    assert json.loads(sqlite_shop.ok("budgets", "list", "--json")) == {"budgets": []}
    assert "nothing was spent" in sqlite_shop("budgets", "ledger").stderr


def says_how_far_they_are(spent: Shop) -> None:
    heading, row = [line.split("\t") for line in spent.ok("budgets", "list").splitlines()]
    assert heading == ["BUDGET", "KEY", "SPENT", "SHARE", "RESERVED", "LOST", "CEILING", "UNTIL", "LEVEL"]
    assert row[:7] == ["ai", "", "8.5", "95%", "0", "1", "10"]
    assert row[7].endswith("T00:00:00Z")
    assert row[8] == "alert"
    (shown,) = json.loads(spent.ok("budgets", "list", "--json"))["budgets"]
    assert (shown["spent"], shown["lost"], shown["ceiling"], shown["share"]) == (8.5, 1.0, 10.0, 0.95)


def breaks_one_down(spent: Shop) -> None:
    result = spent("budgets", "show", "ai", "--by", "actor")
    assert ["alice", "8", "1"] in [line.split("\t") for line in result.stdout.splitlines()]
    assert ["-", "0.5", "1"] in [line.split("\t") for line in result.stdout.splitlines()]
    assert "$1.00 of job" in result.stderr
    (listed,) = json.loads(spent.ok("budgets", "list", "--json"))["budgets"]
    assert json.loads(spent.ok("budgets", "show", "AI", "--json")) == listed
    parts = json.loads(spent.ok("budgets", "spend", "AI", "--json"))
    assert parts == {"by": "kind", "parts": [{"name": "work", "amount": 8.5, "entries": 2}]}
    assert "alice,8.0,1" in spent.ok("budgets", "spend", "ai", "--by", "actor", "-o", "csv").splitlines()
    assert spent("budgets", "show", "none").exit_code == 3
    assert spent("budgets", "show", "ai", "--by", "colour").exit_code == 2


def shows_every_entry(spent: Shop) -> None:
    entries = json.loads(spent.ok("budgets", "ledger", "--json"))["entries"]
    assert [(entry["budget"], entry["amount"], entry["unit"]) for entry in entries] == [
        ("ai", 0.5, "usd"),
        (None, 3.0, "tokens"),
        ("ai", 8.0, "usd"),
    ]
    older = json.loads(spent.ok("budgets", "ledger", "ai", "--before", entries[0]["id"], "--json"))["entries"]
    assert [entry["id"] for entry in older] == [entries[2]["id"]]
    table = spent.ok("budgets", "ledger", "ai")
    assert "$8.00" in table
    assert "\x1b" not in table
    assert spent("budgets", "ledger", "none").exit_code == 3
    assert spent("budgets", "ledger", "ai", "--before", "newest").exit_code == 2
    page = json.loads(spent.ok("budgets", "ledger", "--limit", "1", "--json"))
    assert page == {"entries": entries[:1], "next": entries[0]["id"]}


def settles_by_hand(spent: Shop) -> None:
    (lost,) = json.loads(spent.ok("budgets", "lost", "ai", "--json"))["lost"]
    assert [lost["job"], "1", "", "1.5", "0.5"] == spent.ok("budgets", "lost", "ai").splitlines()[1].split("\t")[:5]
    assert (lost["claim"], lost["estimate"], lost["spent"]) == (1, 1.5, 0.5)
    assert "is settled" in spent.ok("budgets", "settle", lost["job"], "1")
    assert spent("budgets", "settle", lost["job"], "1").exit_code == 3
    assert spent("budgets", "settle", public_id.encode(7), "1").exit_code == 3
    (shown,) = json.loads(spent.ok("budgets", "list", "--json"))["budgets"]
    assert (shown["spent"], shown["lost"]) == (8.5, 0.0)


def changes_the_amount(spent: Shop) -> None:
    assert spent.ok("budgets", "set", "ai", "$20", "--reason", "more") == "ai has $20.00 a day\n"
    (shown,) = json.loads(spent.ok("budgets", "list", "--json"))["budgets"]
    assert (shown["ceiling"], shown["level"]) == (20.0, "normal")
    assert spent("budgets", "set", "ai", "much").exit_code == 2
    assert spent("budgets", "set", "none", "$5").exit_code == 3


def test_a_budget_from_the_shell(spent: Shop) -> None:
    says_how_far_they_are(spent)
    breaks_one_down(spent)
    shows_every_entry(spent)
    settles_by_hand(spent)
    changes_the_amount(spent)
