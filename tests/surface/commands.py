"""The command line: the help of every command, and the exit codes."""

import os
from collections.abc import Iterator

import click
from click.testing import CliRunner

from holdfast.cli.exits import Exit
from holdfast.cli.main import standalone

_WIDTH = 100
_SHARED = "Which app, store or server:\n"


def describe_commands() -> str:
    """Write the help of every command, with the options that all of them share once."""
    codes = "\n".join(f"  {code.value} {code.name}" for code in Exit)
    parts = [f"# exit codes\n{codes}\n"]
    shared = ""
    for path, _ in [((), standalone), *every_command(standalone)]:
        text = _help(*path)
        before, heading, after = text.partition(_SHARED)
        found, _, rest = after.partition("\n\n")
        if heading and not shared:
            shared = found.strip("\n")
            parts.insert(1, f"# {_SHARED}{shared}\n")
        if heading and found.strip("\n") == shared:
            text = f"{before}[{_SHARED.strip()[:-1]}]\n" + (f"\n{rest}" if rest else "")
        parts.append(f"# {' '.join(('holdfast', *path))}\n{text}")
    return "\n".join(parts)


def every_command(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Go through all commands and those below them, by name."""
    for name, command in sorted(group.commands.items()):
        if command.hidden:  # another name of a command
            continue
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from every_command(command, *path, name)


def _help(*path: str) -> str:
    chosen = dict.fromkeys(name for name in os.environ if name.startswith("HOLDFAST_"))
    asked = CliRunner().invoke(standalone, [*path, "--help"], env=chosen, terminal_width=_WIDTH, prog_name="holdfast")
    assert asked.exit_code == 0, asked.output
    return asked.output
