"""Exit codes, and the one place where errors become them."""

from enum import IntEnum
from typing import IO, Any

import click

from holdfast.cli import output
from holdfast.errors import Conflict, HoldfastError, InvalidConfig, InvalidValue, OutcomeUnknown, ResultTimeout


class Exit(IntEnum):
    """What the shell is told; a worker that was told to leave twice gives 128 + the signal's number, as shells do."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    JOB_FAILED = 5
    UNHEALTHY = 6
    TIMEOUT = 124
    INTERRUPTED = 130


LEGEND = (
    "Exit codes: 0 ok, 1 error (also: store not reachable, nothing changed), 2 wrong usage or value, 3 not found, "
    "4 conflict, 5 the job that was waited for failed or was cancelled, 6 unhealthy (doctor), 124 not in time (no "
    "answer: the change may have happened; not finished within a timeout: the job goes on; worker: its grace ended), "
    "130 stopped by Ctrl-C."
)

# The first that fits.
_CODES: tuple[tuple[type[Exception], Exit], ...] = (
    (LookupError, Exit.NOT_FOUND),  # JobNotFound and the like
    (Conflict, Exit.CONFLICT),
    (InvalidValue, Exit.USAGE),
    (InvalidConfig, Exit.USAGE),
    (OutcomeUnknown, Exit.TIMEOUT),
    (ResultTimeout, Exit.TIMEOUT),
    (HoldfastError, Exit.ERROR),
)


def code_of(error: HoldfastError) -> Exit:
    """Find the exit code of an error."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


class Refusal(click.ClickException):
    """An error as people see it: one sentence, perhaps with lines of detail, and an exit code."""

    def __init__(
        self, message: str, code: Exit, *, kind: str = "Error", detail: str | None = None, as_json: bool = False
    ) -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc] # click reads it from the instance
        self.kind = kind
        self.detail = detail
        self.as_json = as_json

    def show(self, file: IO[Any] | None = None) -> None:
        """Print to stderr: a sentence, or a JSON object."""
        show_error(self.message, self.exit_code, kind=self.kind, detail=self.detail, as_json=self.as_json, file=file)


def refusal(error: HoldfastError, *, as_json: bool = False) -> Refusal:
    """Make what is shown of an error of the package."""
    message, _, detail = str(error).partition("\n")
    return Refusal(message, code_of(error), kind=type(error).__name__, detail=detail or None, as_json=as_json)


def show_error(
    message: str,
    code: int,
    *,
    kind: str = "Error",
    detail: str | None = None,
    as_json: bool = False,
    file: IO[Any] | None = None,
) -> None:
    """Print one error to stderr; no password and no control character gets through."""
    sentence = output.one_line(output.without_passwords(message))
    lines = None if detail is None else output.block(output.without_passwords(detail))
    if as_json:
        shown: dict[str, Any] = {"type": kind, "message": sentence, "exit_code": code}
        if lines is not None:
            shown["detail"] = lines
        text = output.json_line({"error": shown})
    else:
        text = f"Error: {sentence}" + ("" if lines is None else f"\n{lines}")
    click.echo(text, file=file, err=file is None)
