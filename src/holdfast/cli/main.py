"""The program: all commands together, as `holdfast` or under another program's name."""

import io
import sys

import click

from holdfast.app import Holdfast
from holdfast.cli.bench import bench
from holdfast.cli.budgets import budgets
from holdfast.cli.bulk import bulk
from holdfast.cli.config_changes import config
from holdfast.cli.demo import demo
from holdfast.cli.deploy import deploy
from holdfast.cli.dlq import dlq
from holdfast.cli.doctor import doctor
from holdfast.cli.enqueue import enqueue
from holdfast.cli.escalations import escalations
from holdfast.cli.exits import LEGEND
from holdfast.cli.grammar import Program
from holdfast.cli.jobs import jobs
from holdfast.cli.limits import limits
from holdfast.cli.locate import Target
from holdfast.cli.locks import locks
from holdfast.cli.migrate import migrate
from holdfast.cli.move import move
from holdfast.cli.prune import prune
from holdfast.cli.queues import queues
from holdfast.cli.schedules import schedules
from holdfast.cli.services import services
from holdfast.cli.stats import stats
from holdfast.cli.tasks import tasks
from holdfast.cli.upkeep import upkeep
from holdfast.cli.version import version
from holdfast.cli.webhooks import webhooks
from holdfast.cli.worker import worker
from holdfast.cli.workers import workers

_COMMANDS: tuple[click.Command, ...] = (
    worker,
    workers,
    upkeep,
    services,
    schedules,
    tasks,
    enqueue,
    jobs,
    dlq,
    bulk,
    queues,
    limits,
    locks,
    budgets,
    escalations,
    webhooks,
    config,
    prune,
    migrate,
    move,
    doctor,
    stats,
    deploy,
    bench,
    version,
)
_HELP = "Background jobs that are never lost: enqueue them, run them, look at them, keep their store in order."
_EXAMPLES = ("enqueue send_email to=a@example.org", "worker", "jobs list --state failed", "doctor")
_CHOOSING = "-A mypackage.jobs:app jobs list"


def command(app: Holdfast, name: str = "jobs") -> click.Command:
    """Make the commands for one app, to be mounted under a program's own name.

    program.add_command(holdfast.cli.command(app, name="docverse"))
    """
    return _program(name, Target(app), _EXAMPLES)


def main() -> None:
    """Run `holdfast`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a letter must not end the command
            stream.reconfigure(errors="backslashreplace")
    standalone()


def _program(name: str, target: Target, examples: tuple[str, ...]) -> Program:
    settings = {"obj": target, "help_option_names": ["-h", "--help"]}
    program = Program(name, help=_HELP, epilog=LEGEND, examples=examples, context_settings=settings)
    for verb_or_noun in _COMMANDS:
        program.add_command(verb_or_noun)
    return program


standalone = _program("holdfast", Target(), (_CHOOSING, *_EXAMPLES))
standalone.add_command(demo)  # it is about no app, so a program of somebody else's has no use for it
