"""`holdfast jobs export`."""

from typing import Any

import click
import msgspec

from holdfast import payload
from holdfast.cli import job_shapes, many, options, output, shapes
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Verb
from holdfast.client.dead_letters import without_secrets
from holdfast.job import Job

_PAGE = 1_000
_EXAMPLES = (
    "'kind:send_email since:1d' | jq -r .payload.to",
    "'state:failed' --output failed.jsonl",
    "--output all.jsonl",
)
_QUOTING = ("error", "error_fingerprint", "traceback", "attempts", "logs", "progress")  # what may quote a secret


@click.command("export", cls=Verb, examples=_EXAMPLES)
@click.argument("query", metavar="[FILTER]", default="")
@click.option(
    "--output",
    "file",
    type=click.Path(readable=False, allow_dash=True),
    default="-",
    metavar="FILE",
    help="Where to write. [default: stdout]",
)
@options.as_json
@click.pass_context
def export(ctx: click.Context, *, query: str, file: str, as_json: bool) -> None:
    """Write jobs to a file, one JSON object a line, newest first.

    FILTER is that of `jobs list`; without one, all jobs. A line is what `jobs list --json` has of a job. They are read
    page by page, so there may be any number. Secret arguments (SecretStr) and passwords of URLs are covered. How many
    there were is told on stderr.
    """
    which = many.fitting(query)

    async def write(session: Session) -> int:
        count = 0
        page = await session.client.search(which, limit=_PAGE)
        with output.writing(file) as stream:
            while True:
                for job in page.jobs:
                    stream.write(f"{_line(job)}\n")
                count += len(page.jobs)
                if page.next is None:
                    return count
                page = await session.client.search(which, limit=_PAGE, after=page.next)

    count = with_store(ctx, write)
    if as_json:
        output.note(output.json_line(shapes.ExportedShape(count)))
    else:
        output.note("1 job written" if count == 1 else f"{count:,} jobs written")


def _line(job: Job) -> str:
    """Write a job as one line, with its secrets covered wherever they are quoted."""
    shown: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(job_shapes.job(job)))
    secrets = payload.secrets_in(job.payload) if isinstance(job.payload, dict) else []
    if secrets:
        shown |= {name: _covered(shown[name], secrets) for name in _QUOTING}
    return output.masked_line(shown)


def _covered(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        return without_secrets(value, secrets)
    if isinstance(value, list):
        return [_covered(one, secrets) for one in value]
    if isinstance(value, dict):
        return {name: _covered(one, secrets) for name, one in value.items()}
    return value
