"""What operators ask first: backlog, active work, items, errors, throughput, slow jobs."""

from typing import Annotated

from fastapi import Query

from holdfast.resources.stats import ORG_TAG, PROJECT_TAG, Stats
from holdfast.server.api.parameters import NAME
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen

routes = Routes("jobs", "/stats")

_VALUE, _PHASE = 512, 128

Project = Annotated[
    str | None, Query(max_length=_VALUE, examples=["7"], description="Of items, only the jobs of this project.")
]
Phase = Annotated[
    str | None, Query(max_length=_PHASE, examples=["import"], description="Of items, only the jobs in this phase.")
]
OrgTag = Annotated[
    str, Query(max_length=NAME, examples=["tenant"], description="The tag that holds the id of an organisation.")
]
ProjectTag = Annotated[
    str, Query(max_length=NAME, examples=["site"], description="The tag that holds the id of a project.")
]


@routes.get("", Permission.LOOK, summary="Read what operators ask first")
async def read_stats(
    client: Seen,
    project: Project = None,
    phase: Phase = None,
    org_tag: OrgTag = ORG_TAG,
    project_tag: ProjectTag = PROJECT_TAG,
) -> Stats:
    """Count the jobs that wait, run, failed, completed and are slow, in one snapshot of the store.

    At most 10,000 jobs are looked at for each answer, within 5 seconds. A caller who may see some queues only gets the
    answers for the jobs of these queues among those that were looked at.
    """
    return await client.jobs.stats(project=project, phase=phase, org_tag=org_tag, project_tag=project_tag)
