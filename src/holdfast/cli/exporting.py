"""`holdfast jobs export`."""

import click

from holdfast.cli import many, options, output, shapes
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Verb

_PAGE = 1_000
_EXAMPLES = (
    "'kind:send_email since:1d' | jq -r .args.to",
    "'state:failed' --output failed.jsonl",
    "--output all.jsonl",
)


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
    there were is printed on stderr.
    """
    which = many.fitting(query)

    async def write(session: Session) -> int:
        count = 0
        page = await session.client.jobs.search(which, limit=_PAGE)
        with output.writing(file) as stream:
            while True:
                for job in page.jobs:
                    stream.write(f"{output.masked_line(job)}\n")
                count += len(page.jobs)
                if page.next is None:
                    return count
                page = await session.client.jobs.search(which, limit=_PAGE, after=page.next)

    count = with_store(ctx, write)
    if as_json:
        output.note(output.json_line(shapes.ExportedShape(count)))
    else:
        output.note("1 job written" if count == 1 else f"{count:,} jobs written")
