"""Options that several commands share."""

from collections.abc import Sequence

import click

from holdfast import public_id


def _decoded(_ctx: click.Context, _param: click.Parameter, ids: Sequence[str]) -> list[int]:
    """Read ids before anything is opened or changed."""
    return [public_id.decode(job_id) for job_id in ids]


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON; errors too, on stderr.")
actor = click.option("--actor", metavar="WHO", help="Who asks for it; kept with the job or queue.")
reason = click.option("--reason", metavar="WHY", help="Why; kept with the job or queue.")
job_ids = click.argument("ids", nargs=-1, required=True, metavar="ID...", callback=_decoded)
