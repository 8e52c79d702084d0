"""What Huey's consumer imports: the queue in the file that the environment names."""

import os

from benchmarks.contestants.contestant import LEDGER, URL
from benchmarks.contestants.huey import queue, task
from benchmarks.contestants.ledger import Ledger

huey = queue(os.environ[URL])
task(huey, Ledger(os.environ[LEDGER]).record)
