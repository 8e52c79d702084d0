"""What one person can see: everything of the client, narrowed to the queues they may know of."""

from holdfast.client.client import Client
from holdfast.server.kinds import KindRegistry
from holdfast.server.principal import Principal
from holdfast.server.problems import not_found
from holdfast.server.scoped.audit import ScopedAudit
from holdfast.server.scoped.budgets import ScopedBudgets
from holdfast.server.scoped.bulk import ScopedBulkOperations
from holdfast.server.scoped.dead_letters import ScopedDeadLetters
from holdfast.server.scoped.escalations import ScopedEscalations
from holdfast.server.scoped.jobs import ScopedJobs
from holdfast.server.scoped.kinds import ScopedKinds
from holdfast.server.scoped.limits import ScopedLimits
from holdfast.server.scoped.locks import ScopedLocks
from holdfast.server.scoped.queues import ScopedQueues
from holdfast.server.scoped.schedules import ScopedSchedules
from holdfast.server.scoped.tokens import ScopedTokens
from holdfast.server.scoped.workers import ScopedWorkers
from holdfast.server.served import Opened
from holdfast.stores.store import Store


class Sight:
    """The client, as far as one person may look."""

    def __init__(self, opened: Opened, principal: Principal, kinds: KindRegistry) -> None:
        self.client: Client = opened.client
        self.store: Store = opened.store
        self.principal = principal
        self.budgets = ScopedBudgets(self.client.budgets, principal)
        self.limits = ScopedLimits(self.client, principal)
        self.locks = ScopedLocks(self.client, principal)
        self.jobs = ScopedJobs(self.client.jobs, principal)
        self.queues = ScopedQueues(self.client.queues, principal)
        self.escalations = ScopedEscalations(self.client.escalations, self.client.jobs.get_many, principal)
        self.bulk = ScopedBulkOperations(self.client.bulk, self.store, self.jobs.chosen, principal)
        self.dead_letters = ScopedDeadLetters(self.client, self.bulk, principal, self.jobs.among)
        self.webhooks = self.client.webhooks  # only those who may see all queues get to its routes
        self.kinds = ScopedKinds(kinds, self.store, principal)
        self.services = self.client.services  # of all queues: their routes are closed to callers who see only some
        self.tokens = ScopedTokens(self.store, principal)
        self.audit = ScopedAudit(self.store, principal)
        self.workers = ScopedWorkers(self.client, principal)
        self.schedules = ScopedSchedules(self.client.schedules, principal)

    def require_queue(self, queue: str) -> None:
        """Refuse a queue that is not theirs, as one that is not there."""
        if not self.principal.sees(queue):  # guard: scope-queue
            raise not_found("queue", queue)
