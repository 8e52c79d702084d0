"""The dashboard: pages made on the server, readable without a script, kept fresh by a small one."""

from holdfast.server.pages import (
    api_page,
    budgets,
    bulk,
    dead_letters,
    escalations,
    failures,
    job,
    jobs,
    limits,
    login,
    overview,
    queues,
    schedules,
    system,
    workers,
)

PAGES = (
    api_page.routes,
    budgets.routes,
    bulk.routes,
    dead_letters.routes,
    escalations.routes,
    failures.routes,
    job.routes,
    jobs.routes,
    limits.routes,
    login.routes,
    overview.routes,
    queues.routes,
    schedules.routes,
    system.routes,
    workers.routes,
)
