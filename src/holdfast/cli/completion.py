"""`holdfast completion`."""

import click
from click.shell_completion import get_completion_class

from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Verb

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Verb, examples=("bash > ~/.local/share/bash-completion/completions/holdfast", "zsh"))
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print what lets a shell complete with the Tab key.

    Commands, options, and where a store or server is chosen, kinds, queues, schedules, limits and budgets. No app is
    imported for it: with -A alone there are no such names.
    bash: write it to a file as in the example, or run `eval "$(holdfast completion bash)"`; zsh: write it to a file
    named _holdfast in a folder of $fpath; fish: write it to ~/.config/fish/completions/holdfast.fish.
    """
    program = ctx.find_root()
    name = (program.info_name or "").rpartition("/")[2]
    if not name or " " in name:  # as `python -m holdfast`
        name = program.command.name or "holdfast"
    found = get_completion_class(shell)
    if found is None:
        message = f"completion: expected one of {', '.join(_SHELLS)}, got {shell}"
        raise Refusal(message, Exit.USAGE)
    variable = f"_{name}_COMPLETE".replace("-", "_").replace(".", "_").upper()
    click.echo(found(program.command, {}, name, variable).source())
