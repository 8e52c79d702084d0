"""Options that several commands share."""

import click

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON; errors too, on stderr.")
actor = click.option("--actor", metavar="WHO", help="Who asks for it; kept with what is changed.")
reason = click.option("--reason", metavar="WHY", help="Why; kept with what is changed.")
some_ids = click.argument("ids", nargs=-1, metavar="[ID]...")
job_ids = click.argument("ids", nargs=-1, required=True, metavar="ID...")
