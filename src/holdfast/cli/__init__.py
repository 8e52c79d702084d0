"""The command line: `holdfast`, or the same commands under a program's own name.

Reading order: `exits` (errors and exit codes), `output`, `tables` and `listing` (what people and pipes see), `options`
(what several commands take), `grammar` (program, nouns, verbs), `locate` and `connect` (which app, which store), then
one file per noun.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.cli.main import command as command
    from holdfast.cli.main import main as main

__all__ = ["command", "main"]


def __getattr__(name: str) -> Any:
    """Import the commands when somebody asks for them: a worker process uses other parts of this package, and none."""
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from holdfast.cli.main import command, main  # noqa: PLC0415 - see above

    globals().update(command=command, main=main)  # `main` is also the name of the module, which the import has set
    return globals()[name]
