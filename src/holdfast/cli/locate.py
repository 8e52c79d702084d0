"""Which app the commands are about: the one they were mounted with, or the one that was chosen.

Chosen is, in this order: `-A module:app`, `--store URL` or `--server URL` on the command line, HOLDFAST_APP,
HOLDFAST_STORE or HOLDFAST_SERVER in the environment, `app` in the configuration file or in [tool.holdfast] of the
nearest pyproject.toml, the store of the configuration file. What is chosen holds for every command. A server is asked
over HTTP, and only what needs no database and no tasks can be asked of it.
"""

import importlib
import os
import sys
import tomllib
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from holdfast import ownership
from holdfast.app import Holdfast
from holdfast.cli.exits import Exit, Refusal
from holdfast.errors import ConfigError, HoldfastError

_GIVEN = "holdfast.cli.given."
_FRAMES = 5
_FOUR_WAYS = (
    "name the app with -A module:app, HOLDFAST_APP, or `app` in holdfast.yaml or under [tool.holdfast] in "
    "pyproject.toml; commands that need no tasks also take --store URL, HOLDFAST_STORE or the store of holdfast.yaml"
)


@dataclass(frozen=True)
class Target:
    """What a program is mounted with; without an app, the command line chooses one."""

    app: Holdfast | None = None
    owns_process: bool = False  # it is `holdfast` itself, not a program of a user that the commands are mounted in


@dataclass(frozen=True)
class Server:
    """A server that commands are asked of, and the token for it."""

    url: str
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class _Choice:
    source: str
    app: str | None = None
    store: str | None = None
    folder: Path | None = None
    config: Path | None = None


def _remember(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[f"{_GIVEN}{param.name}"] = value


def _option(flags: list[str], metavar: str, text: str) -> click.Option:
    return click.Option(flags, metavar=metavar, help=text, expose_value=False, callback=_remember)


CHOICES = (
    _option(["-A", "--app"], "MODULE:APP", "The app to work with. [env: HOLDFAST_APP]"),
    _option(["--store"], "URL", "A store alone, for commands that need no tasks. [env: HOLDFAST_STORE]"),
    _option(["--schema"], "NAME", "The PostgreSQL schema, with --store or HOLDFAST_STORE. [default: holdfast]"),
    _option(["--server"], "URL", "A server to ask over HTTP instead of the database. [env: HOLDFAST_SERVER]"),
    _option(["--token"], "@FILE", "A file with the token for the server. [env: HOLDFAST_TOKEN, a token or @FILE]"),
)
_SOURCES = {
    "app": ("-A", "HOLDFAST_APP"),
    "store": ("--store", "HOLDFAST_STORE"),
    "server": ("--server", "HOLDFAST_SERVER"),
}


def _mounted(ctx: click.Context) -> Holdfast | None:
    """The app that the program was mounted with."""
    target = ctx.find_object(Target)
    return None if target is None else target.app


def server(ctx: click.Context) -> Server | None:
    """Find the server to ask, if one is named."""
    if _mounted(ctx) is not None:
        return None
    _, name, value = _given(ctx)
    if name == "server" and value is not None:
        return Server(value, _token(ctx))
    if ctx.meta.get(f"{_GIVEN}token") is not None:
        message = "--token goes with --server"
        raise click.UsageError(message, ctx)
    return None


def _given(ctx: click.Context) -> tuple[str, str, str | None]:
    """Read what is named on the command line or else in the environment: by what, which of the three, and its name."""
    for place, read in enumerate((lambda name: ctx.meta.get(f"{_GIVEN}{name}"), _from_environment)):
        found = {name: value for name in _SOURCES if (value := read(name))}
        if len(found) > 1:
            one, other = (_SOURCES[name][place] for name in list(found)[:2])
            message = f"{one} and {other} exclude each other; give one of them"
            raise click.UsageError(message, ctx)
        for name, value in found.items():
            return _SOURCES[name][place], name, value
    return "", "", None


def _from_environment(name: str) -> str | None:
    return os.environ.get(f"HOLDFAST_{name.upper()}") or None


def _token(ctx: click.Context) -> str | None:
    typed: str | None = ctx.meta.get(f"{_GIVEN}token")
    if typed is not None and not typed.startswith("@"):  # and it is not repeated here
        message = "--token: expected @FILE, a file with the token in it; others on this machine see what is typed, so a"
        message += " token itself is taken from HOLDFAST_TOKEN alone"
        raise click.UsageError(message, ctx)
    given = typed or os.environ.get("HOLDFAST_TOKEN") or None
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{'HOLDFAST_TOKEN' if typed is None else '--token'}: the file {given[1:]} cannot be read: {error}"
        raise click.UsageError(message, ctx) from error


def app_with_tasks(ctx: click.Context) -> Holdfast:
    """Find the app for a command that needs its tasks."""
    app, choice = _find(ctx)
    if choice is not None and choice.app is None:
        raise _without_tasks(ctx, choice)
    return app


def app_or_store(ctx: click.Context) -> tuple[Holdfast, bool]:
    """Find the app for a command that needs its store only; False: its tasks are not known."""
    app, choice = _find(ctx)
    return app, choice is None or choice.app is not None


def store_alone(ctx: click.Context) -> Holdfast:
    """Find the store without importing an app, which runs its code: for the Tab key, where no command was run."""
    if (app := _mounted(ctx)) is not None:
        return app
    choice = _choose(ctx)
    if choice.store is not None:
        return bare_app(ctx, choice.store, ctx.meta.get(f"{_GIVEN}schema") or "holdfast")
    if choice.config is None:
        message = f"{choice.source} names an app, and no store without it"
        raise click.UsageError(message, ctx)
    return Holdfast(config=choice.config)


def names_an_app(ctx: click.Context) -> bool:
    """Whether an app was named on the command line or in the environment, or is fixed."""
    return _mounted(ctx) is not None or bool(ctx.meta.get(f"{_GIVEN}app") or os.environ.get("HOLDFAST_APP"))


@dataclass(frozen=True)
class Spelled:
    """An app as it was named, and by what."""

    source: str
    app: str
    folder: str | None


def spelled_app(ctx: click.Context) -> Spelled:
    """Find the app's name, for a command that leaves importing it to other processes."""
    if (app := _mounted(ctx)) is not None:
        return Spelled(ctx.command_path, _name_of(ctx, app), None)
    choice = _choose(ctx)
    if choice.app is None:
        raise _without_tasks(ctx, choice)
    return Spelled(choice.source, choice.app, None if choice.folder is None else str(choice.folder))


def imported_app(spelled: Spelled) -> Holdfast:
    """Import an app by its name."""
    folder = None if spelled.folder is None else Path(spelled.folder)
    return _imported(_Choice(spelled.source, app=spelled.app, folder=folder))


def _without_tasks(ctx: click.Context, choice: _Choice) -> click.UsageError:
    message = (
        f"{ctx.command_path} needs the tasks of an app, and {choice.source} names a store alone; give -A module:app"
    )
    return click.UsageError(message, ctx)


def _name_of(ctx: click.Context, app: Holdfast) -> str:
    """Find where an app that is here already can be imported from."""
    for module_name, module in list(sys.modules.items()):
        for name, value in list(vars(module).items()) if module_name != "__main__" and module is not None else ():
            if value is app:
                return f"{module_name}:{name}"
    message = f"{ctx.command_path} starts processes that import the app, and it stands in no module of its own; define"
    message += " it at the top of a module"
    raise click.UsageError(message, ctx)


def _find(ctx: click.Context) -> tuple[Holdfast, _Choice | None]:
    if (app := _mounted(ctx)) is not None:
        return app, None
    schema = ctx.meta.get(f"{_GIVEN}schema")
    choice = _choose(ctx)
    if choice.store is not None:
        return bare_app(ctx, choice.store, "holdfast" if schema is None else schema), choice
    if schema is not None:
        message = f"--schema goes with --store; {choice.source} names an app, which knows its own schema"
        raise click.UsageError(message, ctx)
    if choice.app is None and choice.config is not None:
        return Holdfast(config=choice.config), choice
    return _imported(choice), choice


def _choose(ctx: click.Context) -> _Choice:
    source, name, value = _given(ctx)
    if name == "server":
        message = (
            f"{ctx.command_path} needs the database, and {source} names a server; give -A module:app or --store URL"
        )
        raise click.UsageError(message, ctx)
    if name:
        return _Choice(source, app=value if name == "app" else None, store=value if name == "store" else None)
    found = _from_files()
    if found is None:
        message = f"no app was named; {_FOUR_WAYS}"
        raise click.UsageError(message, ctx)
    return found


def _from_files() -> _Choice | None:
    """Find the app or the store that a file names; an app is preferred, wherever it is named."""
    from holdfast.configuration import files, naming  # noqa: PLC0415 - a worker process is told its app

    file = files.find()
    app = None if file is None else naming.named_app(file)
    if file is not None and app is not None:
        return _Choice(str(file), app=app, folder=file.resolve().parent, config=file)
    found = _from_pyproject(Path.cwd(), files.is_usable)
    return _Choice(str(file), config=file) if found is None and file is not None else found


def _from_pyproject(start: Path, is_usable: Callable[[Path], bool]) -> _Choice | None:
    """Read the nearest pyproject.toml that says something about Holdfast."""
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if not is_usable(file):
            continue
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("holdfast")
        except (OSError, ValueError, RecursionError) as error:
            message = f"{file} cannot be read: {error}"
            raise Refusal(message, Exit.ERROR, kind="ConfigError") from error
        if table is not None:
            app = table.get("app")
            if app is None and table:
                return None  # a configuration without an app
            if not isinstance(app, str):
                message = f'{file}: expected app = "module:app" under [tool.holdfast], got {table!r}'
                raise Refusal(message, Exit.USAGE, kind="ConfigError")
            return _Choice(str(file), app=app, folder=folder)
    return None


def bare_app(ctx: click.Context, url: str, schema: str, **options: Any) -> Holdfast:
    """Make an app without tasks of a store that was named."""
    try:
        return Holdfast(url, schema=schema, **options)
    except ConfigError as error:
        message = str(error).removeprefix("Holdfast(...): ")
        raise click.UsageError(message, ctx) from error


# ---- importing -----------------------------------------------------------------------------------------------------


def _imported(choice: _Choice) -> Holdfast:
    spelled = choice.app or ""
    module_name, colon, attributes = spelled.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module_name.split("."), *attributes.split("."))):
        raise _misspelled(choice, "expected a form like module:app or package.module:app")
    here = Path.cwd()
    # An app that was found, and not named by the user, must not be looked for among files of others.
    # guard: foreign-folder, without: is_trusted = True
    is_trusted = choice.folder is None or ownership.find_stranger(here) is None
    for folder in (choice.folder, here if is_trusted else None):
        if folder is not None and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    found: Any = _import(choice, module_name)
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise _misspelled(choice, f"{module_name} was imported and has no {attribute}")
        found = getattr(found, attribute)
    if not isinstance(found, Holdfast):
        raise _misspelled(choice, f"expected a Holdfast app there, got a {type(found).__qualname__}")
    return found


def _import(choice: _Choice, module_name: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise _misspelled(choice, f"there is no module {error.name} in {Path.cwd()} or on Python's path") from error
        raise _broken(module_name, error) from error
    except HoldfastError as error:  # a task or the app itself is defined wrongly, and the sentence says how
        said, _, detail = str(error).partition("\n")
        message = f"importing {module_name}: {said}"
        raise Refusal(message, Exit.ERROR, kind=type(error).__name__, detail=detail or None) from error
    except (Exception, SystemExit) as error:
        raise _broken(module_name, error) from error


def _misspelled(choice: _Choice, why: str) -> Refusal:
    return Refusal(f"{choice.source} {choice.app!r}: {why}", Exit.USAGE, kind="UsageError")


def _broken(module_name: str, error: BaseException) -> Refusal:
    """Show where the user's module broke: the last frames, without lines of code, which may hold secrets."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    places = [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}' for frame in frames[-_FRAMES:]]
    text = str(error)
    what = f"{type(error).__qualname__}: {text}" if text else type(error).__qualname__
    return Refusal(
        f"importing {module_name} failed: {what}",
        Exit.ERROR,
        kind=type(error).__qualname__,
        detail="\n".join(places) or None,
    )


def _is_ours(filename: str) -> bool:
    return filename == __file__ or "importlib" in filename
