"""The grammar of the command line in click's classes: a program, its nouns, their verbs."""

import itertools
from collections.abc import Sequence
from typing import Any

import click

from holdfast.cli import locate, output
from holdfast.cli.exits import Exit, Refusal, refusal
from holdfast.errors import HoldfastError

_AS_JSON = "holdfast.cli.as_json"


class Verb(click.Command):
    """A command that does something; its help ends with examples, spelled with the program's own name."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """List the options; where no app is fixed, those that choose one are accepted here too."""
        return _with_choice(ctx, super().get_params(ctx))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, and apart from them those that choose what it is asked of."""
        _write_options(ctx, formatter, self.get_params(ctx))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        _write_examples(ctx, formatter, self.examples)


class Noun(click.Group):
    """What verbs are about; alone it prints its help."""

    command_class = Verb

    def __init__(self, *args: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """List the verbs in the order in which they are written."""
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Print the help when nothing follows."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, after whatever else stands last."""
        super().format_epilog(ctx, formatter)
        _write_examples(ctx, formatter, self.examples)


class Program(Noun):
    """The whole command line; here every error of the package becomes a sentence and an exit code."""

    group_class = Noun

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """List the options; those that choose an app only where none is fixed."""
        return _with_choice(ctx, super().get_params(ctx))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the program's own options."""
        as_json = _asks_for_json(args)
        try:
            ctx = super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            raise _cleaned(error, as_json=as_json) from error
        ctx.meta[_AS_JSON] = as_json
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        as_json: bool = ctx.meta.get(_AS_JSON, False)
        try:
            return super().invoke(ctx)
        except HoldfastError as error:
            raise refusal(error, as_json=as_json) from error
        except Refusal as error:
            error.as_json = as_json
            raise
        except click.UsageError as error:
            raise _cleaned(error, as_json=as_json) from error


def program_of(ctx: click.Context) -> str:
    """Spell the program as it was called: `holdfast`, or what it is mounted under."""
    program = ctx
    while program.parent is not None and not isinstance(program.command, Program):
        program = program.parent
    return program.command_path


def _with_choice(ctx: click.Context, params: list[click.Parameter]) -> list[click.Parameter]:
    target = ctx.find_object(locate.Target)
    if target is None or target.app is not None:
        return params
    *own, help_option = params
    return [*own, *locate.CHOICES, help_option]


def _write_options(ctx: click.Context, formatter: click.HelpFormatter, params: Sequence[click.Parameter]) -> None:
    choices = [param for param in params if param in locate.CHOICES]
    for title, chosen in (
        ("Options", [param for param in params if isinstance(param, click.Option) and param not in choices]),
        ("Which app, store or server", choices),
    ):
        records = [record for param in chosen if (record := param.get_help_record(ctx)) is not None]
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _asks_for_json(args: Sequence[str]) -> bool:
    """Whether errors are JSON too: after `--json`, `-o json` or `-o jsonl`, however that is spelled."""
    own = list(args[: args.index("--")] if "--" in args else args)
    forms = [after for flag, after in itertools.pairwise(own) if flag in ("-o", "--format")]
    forms += [flag.removeprefix("-o").removeprefix("--format=") for flag in own if flag.startswith(("-o", "--format="))]
    return "--json" in own or not {"json", "jsonl"}.isdisjoint(forms)


def _cleaned(error: click.UsageError, *, as_json: bool) -> click.ClickException:
    """Make click's own complaint safe to print: it quotes what was typed."""
    message = output.one_line(output.without_passwords(error.format_message()))
    if as_json:
        return Refusal(message, Exit.USAGE, kind="UsageError", as_json=True)
    return click.UsageError(message, error.ctx)


def _write_examples(ctx: click.Context, formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    if not examples:
        return
    program = program_of(ctx)
    with formatter.section("Examples"):
        for example in examples:
            spelled = example.replace("{program}", program)
            formatter.write(f"{'':>{formatter.current_indent}}{ctx.command_path} {spelled}".rstrip() + "\n")
