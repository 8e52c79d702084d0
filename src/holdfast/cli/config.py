"""`holdfast config check|show|schema`; those that change something are in `config_changes`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.app import Holdfast
from holdfast.cli import locate, options, output
from holdfast.cli.connect import with_store
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell
from holdfast.cli.tables import Attribute, ResourceTable
from holdfast.errors import HoldfastError, InvalidConfig, WrongSetting
from holdfast.resources.setting import Setting, SettingList

_DEFAULT = "default"
_STYLES = {_DEFAULT: "bright_black"}


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _origin(row: Setting) -> Cell:
    by = "" if row.changed_by is None else f" by {row.changed_by}"
    return Cell(f"{row.origin}{by}", style=_STYLES.get(row.origin, ""))


_SETTINGS = ResourceTable[Setting](
    Attribute("SETTING", lambda row: row.path, is_flexible=True),
    Attribute("VALUE", lambda row: _text(row.value), is_flexible=True),
    Attribute("FROM", _origin, is_flexible=True),
)


class CheckShape(msgspec.Struct, frozen=True):
    """`config check --json`."""

    file: str | None
    errors: tuple[WrongSetting, ...]


@click.group("config", cls=Noun, examples=("check", "show queues.high", "schema > holdfast.schema.json"))
def config() -> None:
    """Check the configuration, and look at what holds."""


@config.command("check", examples=("", "holdfast.yaml", "-A mypackage.jobs:app", "--json"))
@click.argument("file", required=False, type=click.Path(path_type=Path))
@options.as_json
@click.pass_context
def check(ctx: click.Context, *, file: Path | None, as_json: bool) -> None:
    """Check a configuration and print every error in it.

    Checked is the FILE, or that of the app if one is named, or the nearest holdfast.yaml, holdfast.toml or
    [tool.holdfast]. With an app, kinds and schedules that it has no tasks for are noted. Exit code 0: there is no
    error; 2: there are some.
    """
    from holdfast.configuration import files  # noqa: PLC0415 - other commands do without

    errors: tuple[WrongSetting, ...] = ()
    checked = file
    try:
        if file is not None or not locate.names_an_app(ctx):
            checked = files.required() if file is None else file
            Holdfast(config=checked)
        else:
            app = locate.app_with_tasks(ctx)
            checked = None if app.configuration is None else app.configuration.file
            _note_strangers(app)
    except InvalidConfig as error:
        errors = error.errors
    except Refusal as error:  # the app could not be imported, perhaps because of them
        if not isinstance(error.__cause__, InvalidConfig):
            raise
        errors = error.__cause__.errors
    if as_json:
        output.write_json(CheckShape(None if checked is None else str(checked), errors))
    for wrong in () if as_json else errors:
        output.line(output.without_passwords(str(wrong)))
    if errors:
        output.note(f"{len(errors)} error{'s' if len(errors) > 1 else ''}")
        ctx.exit(Exit.USAGE)
    if not as_json:
        output.line("no errors" if checked is None else f"{files.shown_path(checked)}: no errors")


def _note_strangers(app: Holdfast) -> None:
    """Name what the file says of tasks that the app does not have; those of another program may share it."""
    told = {} if app.configuration is None else app.configuration.schedules
    strangers = [f"kinds.{kind}" for kind in app.config.kinds if kind not in app.tasks]
    strangers += [f"schedules.{name}" for name in told if told[name].get("kind", name) not in app.tasks]
    for path in strangers:
        output.note(f"{path}: the app has no such task")


@config.command("show", examples=("", "queues.high", "--changed", "--json"))
@click.argument("path", required=False)
@click.option("--changed", is_flag=True, help="Leave out what is as it is by default.")
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, path: str | None, changed: bool, as_json: bool) -> None:
    """Show the settings that hold, and where they come from.

    From the lowest: default, code, preset or file, environment, override (stored with `config set`). With PATH, only
    what lies below it. Secrets are not shown.
    """
    found = _in_force(ctx)
    rows = [row for row in found.settings if _is_below(row, path)]
    if path is not None and not rows:
        message = f"there is no setting {path}; `config show` lists all"
        raise click.UsageError(message, ctx)
    if changed:
        rows = [row for row in rows if row.origin != _DEFAULT]
    if as_json:
        output.write_json(replace(found, settings=rows))
        return
    output.table(*_SETTINGS.of(rows))


def _in_force(ctx: click.Context) -> SettingList:
    """Read what holds; a database that cannot be asked does not keep the app's own settings from being shown."""
    try:
        return with_store(ctx, lambda session: session.client.settings.list())
    except (HoldfastError, OSError) as error:
        if locate.server(ctx) is not None:
            raise
        output.note(f"what is set in the store is not shown: {output.without_passwords(str(error))}")
        return locate.app_or_store(ctx)[0].describe_settings()


def _is_below(row: Setting, path: str | None) -> bool:
    return path is None or row.path == path or row.path.startswith(f"{path}.")


@config.command("schema", examples=("> holdfast.schema.json",))
def schema() -> None:
    """Print the JSON Schema of a configuration, for editors.

    In holdfast.yaml, a first line `# yaml-language-server: $schema=holdfast.schema.json` lets an editor use it.
    """
    from holdfast.configuration.schema import json_schema  # noqa: PLC0415 - other commands do without
    from holdfast.server.settings import ServerSettings  # noqa: PLC0415 - as above

    output.write_json(json_schema(ServerSettings))
