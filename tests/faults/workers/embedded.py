"""A program of a user that runs jobs inside itself; what follows on its command line is not looked at."""

import asyncio
import logging

from tests.support.ledger_app import app

if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(app.run_worker())
