"""Who may do what, written by hand and reviewed: one line for each route, compared with the server by two tests.

A line says: method, path, the least role, and what an admin gets whose token is for another queue than the one that the
request names:

* 403: the route concerns all queues, or gives away more than the asker has;
* 404 or 422: what the request names is not there for them (422 where it is a kind);
* narrowed: an answer in which nothing of other queues is shown, counted or changed;
* open: the route says nothing of any queue.

`VERBS` says it by what is done: the API, the pages and the table in `docs/operate/secure.md` agree with it.
"""

from typing import NamedTuple

ANYBODY = "anybody"
NARROWED = "narrowed"
OPEN = "open"

_TABLE = """
GET    /healthz                                      anybody  open
GET    /readyz                                       anybody  open
GET    /metrics                                      viewer   403
POST   /api/v1/jobs                                  operator 422
POST   /api/v1/jobs/batch                            operator narrowed
GET    /api/v1/jobs                                  viewer   narrowed
GET    /api/v1/jobs/count                            viewer   narrowed
GET    /api/v1/stats                                 viewer   narrowed
GET    /api/v1/jobs/{id}                             viewer   404
GET    /api/v1/jobs/{id}/why                         viewer   404
GET    /api/v1/jobs/{id}/events                      viewer   404
GET    /api/v1/jobs/{id}/logs                        viewer   404
GET    /api/v1/jobs/{id}/attempts                    viewer   404
GET    /api/v1/jobs/{id}/items                       viewer   404
POST   /api/v1/jobs/{id}/cancel                      operator 404
POST   /api/v1/jobs/{id}/retry                       operator 404
POST   /api/v1/jobs/{id}/reschedule                  operator 404
POST   /api/v1/jobs/{id}/reprioritise                operator 404
POST   /api/v1/jobs/{id}/clone                       operator 404
DELETE /api/v1/jobs/{id}                             admin    404
POST   /api/v1/bulk/preview                          viewer   narrowed
POST   /api/v1/bulk                                  operator narrowed
GET    /api/v1/bulk                                  viewer   narrowed
GET    /api/v1/bulk/{operation}                      viewer   404
POST   /api/v1/bulk/{operation}/pause                operator 404
POST   /api/v1/bulk/{operation}/resume               operator 404
POST   /api/v1/bulk/{operation}/cancel               operator 404
GET    /api/v1/health                                viewer   403
GET    /api/v1/kinds                                 viewer   narrowed
GET    /api/v1/kinds/{kind}                          viewer   404
GET    /api/v1/queues                                viewer   narrowed
GET    /api/v1/queues/{name}                         viewer   404
POST   /api/v1/queues/{name}/pause                   operator 404
POST   /api/v1/queues/{name}/resume                  operator 404
PUT    /api/v1/queues/{name}/settings/{field}        admin    404
DELETE /api/v1/queues/{name}/settings/{field}        admin    404
GET    /api/v1/queues/{name}/purge                   viewer   404
POST   /api/v1/queues/{name}/purge                   admin    404
GET    /api/v1/schedules                             viewer   narrowed
GET    /api/v1/schedules/{name}                      viewer   404
GET    /api/v1/schedules/{name}/next                 viewer   404
GET    /api/v1/schedules/{name}/fires                viewer   404
POST   /api/v1/schedules                             operator 422
PATCH  /api/v1/schedules/{name}                      operator 404
POST   /api/v1/schedules/{name}/enable               operator 404
POST   /api/v1/schedules/{name}/disable              operator 404
POST   /api/v1/schedules/{name}/reset                operator 404
POST   /api/v1/schedules/{name}/run                  operator 404
DELETE /api/v1/schedules/{name}                      admin    404
GET    /api/v1/maintenance                           viewer   open
PUT    /api/v1/maintenance/{name}                    operator 403
DELETE /api/v1/maintenance/{name}                    operator 403
GET    /api/v1/workers                               viewer   narrowed
GET    /api/v1/workers/{number}                      viewer   404
POST   /api/v1/workers/{worker}/drain                operator 403
GET    /api/v1/dead-letters                          viewer   narrowed
GET    /api/v1/dead-letters/export                   viewer   narrowed
GET    /api/v1/dead-letters/preview                  viewer   narrowed
GET    /api/v1/dead-letters/{group}                  viewer   404
GET    /api/v1/dead-letters/{group}/jobs             viewer   404
POST   /api/v1/dead-letters/replay                   operator narrowed
POST   /api/v1/dead-letters/purge                    admin    narrowed
POST   /api/v1/dead-letters/{group}/replay           operator 404
POST   /api/v1/dead-letters/{group}/purge            admin    404
GET    /api/v1/escalations                           viewer   narrowed
GET    /api/v1/escalations/{number}                  viewer   404
POST   /api/v1/escalations/{number}/ack              operator 404
POST   /api/v1/escalations/{number}/snooze           operator 404
POST   /api/v1/escalations/test                      operator 403
GET    /api/v1/budgets                               viewer   403
GET    /api/v1/budgets/{name}                        viewer   403
PUT    /api/v1/budgets/{name}/settings/{field}       admin    403
DELETE /api/v1/budgets/{name}/settings/{field}       admin    403
GET    /api/v1/budgets/{name}/spend                  viewer   403
GET    /api/v1/budgets/{name}/ledger                 viewer   403
GET    /api/v1/budgets/{name}/lost                   viewer   403
POST   /api/v1/budgets/{name}/settle                 operator 403
GET    /api/v1/limits                                viewer   403
GET    /api/v1/limits/{name}                         viewer   403
PUT    /api/v1/limits/{name}/settings/{field}        admin    403
DELETE /api/v1/limits/{name}/settings/{field}        admin    403
GET    /api/v1/locks                                 viewer   403
POST   /api/v1/locks/release                         admin    403
GET    /api/v1/webhooks                              viewer   403
POST   /api/v1/webhooks/enable                       operator 403
GET    /api/v1/settings                              viewer   403
GET    /api/v1/settings/overrides                    viewer   403
PUT    /api/v1/settings/{path}                       admin    403
DELETE /api/v1/settings/{path}                       admin    403
GET    /api/v1/system                                viewer   403
GET    /api/v1/system/tables                         viewer   403
GET    /api/v1/services                              viewer   403
GET    /api/v1/tokens                                admin    narrowed
POST   /api/v1/tokens                                admin    403
DELETE /api/v1/tokens/{number}                       admin    404
GET    /api/v1/audit                                 admin    narrowed
GET    /api/v1/stream                                viewer   narrowed
GET    /api/v1/queues/{name}/stream                  viewer   404
GET    /api/v1/jobs/{job}/stream                     viewer   404
GET    /api/v1/openapi.json                          viewer   open
GET    /queue/jobs/{id}                              viewer   404
GET    /jobs.json                                    viewer   narrowed
GET    /jobs/{id}.json                               viewer   404
GET    /queues.json                                  viewer   narrowed
GET    /queues/{name}.json                           viewer   404
GET    /schedules.json                               viewer   narrowed
GET    /schedules/{name}.json                        viewer   404
GET    /workers.json                                 viewer   narrowed
GET    /failures.json                                viewer   narrowed
GET    /dead-letters.json                            viewer   narrowed
GET    /dead-letters/{group}.json                    viewer   404
GET    /escalations.json                             viewer   narrowed
GET    /escalations/{number}.json                    viewer   404
GET    /budgets.json                                 viewer   403
GET    /budgets/{name}.json                          viewer   403
GET    /limits.json                                  viewer   403
GET    /system.json                                  viewer   403
GET    /system/tables.json                           viewer   403
GET    /system/webhooks.json                         viewer   403
GET    /system/settings.json                         viewer   403
GET    /system/audit.json                            admin    narrowed
GET    /system/tokens.json                           admin    narrowed
GET    /api                                          viewer   open
GET    /api/{resource}                               viewer   open
GET    /budgets                                      viewer   403
GET    /budgets/{name}                               viewer   403
POST   /budgets/{name}/set                           admin    403
POST   /budgets/{name}/reset                         admin    403
POST   /budgets/{name}/settle                        operator 403
GET    /jobs/bulk                                    operator narrowed
POST   /jobs/bulk                                    operator narrowed
POST   /jobs/bulk/{operation}/{verb}                 operator 403
GET    /dead-letters                                 viewer   narrowed
GET    /dead-letters/export                          viewer   narrowed
GET    /dead-letters/replay                          operator narrowed
GET    /dead-letters/purge                           admin    narrowed
POST   /dead-letters/replay                          operator narrowed
POST   /dead-letters/purge                           admin    narrowed
POST   /dead-letters/bulk/{operation}/{verb}         operator 404
GET    /dead-letters/{group}                         viewer   404
GET    /dead-letters/{group}/{job}                   operator 404
POST   /dead-letters/{group}/{job}/replay            operator 404
POST   /dead-letters/{group}/{job}/edit              operator 404
GET    /escalations                                  viewer   narrowed
GET    /escalations/{number}                         viewer   404
POST   /escalations/{number}/ack                     operator 404
POST   /escalations/{number}/snooze                  operator 404
POST   /escalations/policies/{policy}/test           operator 404
GET    /failures                                     viewer   narrowed
GET    /failures/{verb}                              operator narrowed
POST   /failures/{verb}                              operator narrowed
GET    /jobs/{job}                                   viewer   404
POST   /jobs/{job}/cancel                            operator 404
POST   /jobs/{job}/retry                             operator 404
POST   /jobs/{job}/run                               operator 404
POST   /jobs/{job}/delete                            admin    404
GET    /jobs/{job}/clone                             operator 404
POST   /jobs/{job}/clone                             operator 404
GET    /jobs                                         viewer   narrowed
GET    /limits                                       viewer   403
POST   /locks/release                                admin    403
GET    /login                                        anybody  open
POST   /login                                        anybody  open
POST   /logout                                       viewer   open
GET    /                                             viewer   narrowed
GET    /counts                                       viewer   narrowed
GET    /queues                                       viewer   narrowed
GET    /queues/{queue}                               viewer   404
POST   /queues/{queue}/pause                         operator 404
POST   /queues/{queue}/resume                        operator 404
POST   /queues/{queue}/set                           admin    404
POST   /queues/{queue}/reset                         admin    404
GET    /schedules                                    viewer   narrowed
GET    /schedules/{name}                             viewer   404
POST   /schedules                                    operator 422
POST   /schedules/{name}/edit                        operator 404
POST   /schedules/{name}/enable                      operator 404
POST   /schedules/{name}/disable                     operator 404
POST   /schedules/{name}/run                         operator 404
POST   /schedules/{name}/reset                       operator 404
POST   /schedules/{name}/delete                      admin    404
GET    /system                                       viewer   403
GET    /system/tables                                viewer   403
GET    /system/webhooks                              viewer   403
POST   /system/webhooks/enable                       operator 403
GET    /system/settings                              viewer   403
POST   /system/settings/reset                        admin    403
GET    /system/audit                                 admin    narrowed
GET    /system/tokens                                admin    narrowed
POST   /system/tokens                                admin    403
POST   /system/tokens/{number}/revoke                admin    404
GET    /workers                                      viewer   narrowed
POST   /workers/{worker}/drain                       operator 403
"""

MORE_THAN_THE_ROUTE = """
POST   /api/v1/bulk                                  delete  admin
POST   /api/v1/bulk/{operation}/pause                delete  admin
POST   /api/v1/bulk/{operation}/resume               delete  admin
POST   /api/v1/bulk/{operation}/cancel               delete  operator
GET    /jobs/bulk                                    delete  admin
POST   /jobs/bulk                                    delete  admin
POST   /jobs/bulk/{operation}/pause                  delete  admin
POST   /jobs/bulk/{operation}/resume                 delete  admin
POST   /jobs/bulk/{operation}/cancel                 delete  operator
POST   /dead-letters/bulk/{operation}/pause          delete  admin
POST   /dead-letters/bulk/{operation}/resume         delete  admin
POST   /dead-letters/bulk/{operation}/cancel         delete  operator
"""
"""Where the verb of a bulk operation asks for a role, beside the route: method, path, verb, least role."""

_VERBS = """
viewer    look at everything but the audit and tokens, with secrets covered
viewer    export dead letters
operator  enqueue jobs
operator  cancel jobs
operator  retry and replay jobs, also with other arguments
operator  run jobs now or at another time, change their priority
operator  start, pause, resume and cancel bulk operations that do not delete
operator  pause and resume queues
operator  make, change, enable, disable, reset and run schedules
operator  set and delete maintenance windows
operator  drain workers
operator  acknowledge, snooze and test escalations
operator  settle what jobs took of budgets
operator  enable endpoints of webhooks
admin     delete jobs and purge dead letters, also by bulk operations
admin     delete schedules
admin     purge queues
admin     release locks
admin     change and reset settings, also of queues and budgets
admin     read the audit
admin     list, make and revoke tokens
"""

VERBS = {line.split(maxsplit=1)[1]: line.split()[0] for line in _VERBS.strip().splitlines()}
"""What callers do, and the least role for it."""


class Permission(NamedTuple):
    """One line of the table."""

    method: str
    path: str
    role: str
    outside: str

    @property
    def is_answered(self) -> bool:
        """Whether an admin of another queue gets an answer."""
        return not self.outside.isdecimal()

    @property
    def statuses(self) -> tuple[int, ...]:
        """The statuses that an admin of another queue may get."""
        return (200, 201, 204, 303) if self.is_answered else (int(self.outside),)


PERMISSIONS = {(line.split()[0], line.split()[1]): Permission(*line.split()) for line in _TABLE.strip().splitlines()}
