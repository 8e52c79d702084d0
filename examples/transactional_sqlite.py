"""Store a job in the same SQLite transaction as the row it belongs to."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from holdfast import BlockingClient, Holdfast

FILE = Path(tempfile.mkdtemp()) / "shop.db"

app = Holdfast(f"sqlite:///{FILE}")


@app.task
def ship(order: int) -> None:
    """Stand for real work."""


def buy(shop: sqlite3.Connection, queue: BlockingClient, order: int, *, declined: bool) -> None:
    """Write the order and its job together, or neither."""
    with shop:  # commits, or rolls back when an exception leaves the block
        shop.execute("INSERT INTO orders VALUES (?)", (order,))
        queue.enqueue(ship.using(connection=shop).call(order=order))
        if declined:
            message = f"order {order}: the card was declined"
            raise RuntimeError(message)


def main() -> None:
    """Commit one order, roll the next one back: one job is left."""
    with app.blocking() as queue, closing(sqlite3.connect(FILE)) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        buy(shop, queue, 1, declined=False)
        try:
            buy(shop, queue, 2, declined=True)
        except RuntimeError as error:
            print(error)
        print("orders:", [row[0] for row in shop.execute("SELECT id FROM orders")])
        print("jobs:  ", [job.args["order"] for job in queue.jobs.iterate()])


if __name__ == "__main__":
    main()
