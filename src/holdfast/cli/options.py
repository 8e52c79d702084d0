"""Options that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.telemetry import logs

F = TypeVar("F", bound=Callable[..., Any])

LEVELS = ("debug", "info", "warning", "error")

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON; errors too, on stderr.")
actor = click.option("--actor", metavar="WHO", help="Who asks for it; kept with what is changed.")
reason = click.option("--reason", metavar="WHY", help="Why; kept with what is changed.")
some_ids = click.argument("ids", nargs=-1, metavar="[ID]...")
job_ids = click.argument("ids", nargs=-1, required=True, metavar="ID...")
log_level = click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
log_format = click.option("--log-format", type=click.Choice(logs.FORMS), default="text", show_default=True)


def number(flag: str, default: int, help: str, *, least: int = 1, most: int = 1_000) -> Callable[[F], F]:  # noqa: A002 - as click calls it
    """Make an option for a whole number within bounds."""
    bounds = click.IntRange(least, most)
    return click.option(flag, type=bounds, default=default, show_default=True, metavar="N", help=help)
