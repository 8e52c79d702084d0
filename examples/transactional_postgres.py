"""Store a job in the same PostgreSQL transaction as the row it belongs to.

HOLDFAST_URL names the database, HOLDFAST_SCHEMA the schema if it is not `holdfast`; `holdfast migrate up` comes first.
"""

import asyncio
import os

import asyncpg

from holdfast import Holdfast

URL = os.environ.get("HOLDFAST_URL", "postgresql://localhost/shop")

app = Holdfast(URL, schema=os.environ.get("HOLDFAST_SCHEMA", "holdfast"))


@app.task
async def ship(order: int) -> None:
    """Stand for real work."""


async def buy(shop: asyncpg.Connection, order: int, *, declined: bool) -> None:
    """Write the order and its job together, or neither."""
    async with shop.transaction():
        await shop.execute("INSERT INTO orders VALUES ($1)", order)
        await ship.using(connection=shop).enqueue(order=order)
        if declined:
            message = f"order {order}: the card was declined"
            raise RuntimeError(message)


async def main() -> None:
    """Commit one order, roll the next one back: one job is left."""
    shop = await asyncpg.connect(URL)
    await shop.execute("CREATE TEMPORARY TABLE orders (id integer PRIMARY KEY)")
    async with app:
        await buy(shop, 1, declined=False)
        try:
            await buy(shop, 2, declined=True)
        except RuntimeError as error:
            print(error)
        print("orders:", [row["id"] for row in await shop.fetch("SELECT id FROM orders")])
        print("jobs:  ", [job.args["order"] async for job in app.jobs.iterate()])
    await shop.close()


if __name__ == "__main__":
    asyncio.run(main())
