"""The program: all commands together, as `holdfast` or under another program's name."""

import io
import sys

import click

from holdfast.app import Holdfast
from holdfast.cli.exits import LEGEND
from holdfast.cli.grammar import Program
from holdfast.cli.loading import Commands
from holdfast.cli.locate import Target

_COMMANDS = (
    "dev",
    "serve",
    "worker",
    "workers",
    "services_run:services",
    "schedules",
    "kinds",
    "enqueue",
    "jobs",
    "top",
    "dead_letters:failures",
    "dead_letters:dead-letters",
    "dead_letters:dlq",
    "bulk",
    "queues",
    "limits",
    "locks",
    "budgets",
    "escalations",
    "webhooks",
    "tokens",
    "config_changes:config",
    "prune",
    "migrate",
    "move",
    "doctor",
    "stats",
    "deploy",
    "bench",
    "completion",
    "version",
)
_STANDALONE = (*_COMMANDS, "demo")  # it is about no app, so a program of somebody else's has no use for it
_HELP = "Background jobs that are never lost: enqueue them, run them, look at them, keep their store in order."
_EXAMPLES = ("enqueue send_email to=a@example.org", "worker", "jobs list --state failed", "doctor")
_CHOOSING = "-A mypackage.jobs:app jobs list"


def command(app: Holdfast, name: str = "jobs") -> click.Command:
    """Make the commands for one app, to be mounted under a program's own name.

    program.add_command(holdfast.cli.command(app, name="docverse"))
    """
    return _program(name, Target(app), _EXAMPLES, _COMMANDS)


def main() -> None:
    """Run `holdfast`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a letter must not end the command
            stream.reconfigure(errors="backslashreplace")
    standalone(obj=Target(owns_process=True))


def _program(name: str, target: Target, examples: tuple[str, ...], commands: tuple[str, ...]) -> Program:
    settings = {"obj": target, "help_option_names": ["-h", "--help"]}
    return Program(
        name,
        help=_HELP,
        epilog=LEGEND,
        examples=examples,
        context_settings=settings,
        commands=Commands("holdfast.cli", commands),
    )


standalone = _program("holdfast", Target(), (_CHOOSING, *_EXAMPLES), _STANDALONE)
