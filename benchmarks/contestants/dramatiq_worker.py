"""What Dramatiq's worker command imports: the broker of the store that the environment names."""

import os

from benchmarks.contestants.contestant import LEDGER, URL
from benchmarks.contestants.dramatiq import make_actor, make_broker
from benchmarks.contestants.ledger import Ledger

broker = make_broker(os.environ[URL])
make_actor(broker, Ledger(os.environ[LEDGER]).record)
