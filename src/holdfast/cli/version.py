"""`holdfast version`."""

import platform

import click

from holdfast import __version__
from holdfast.cli import options, output, shapes
from holdfast.cli.grammar import Verb


@click.command("version", cls=Verb, examples=("", "--json"))
@options.as_json
def version(*, as_json: bool) -> None:
    """Print the versions of Holdfast and Python."""
    found = shapes.VersionShape(__version__, platform.python_version(), platform.platform())
    output.answer(found, f"holdfast {found.holdfast}, Python {found.python}, {found.platform}", as_json=as_json)
