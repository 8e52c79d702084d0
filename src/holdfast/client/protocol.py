"""`Client`: what the command line and the pages ask, of a database, of a server, or for one caller of a server."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # who asks for one namespace need not import them all
    from holdfast.client.audit import Audit
    from holdfast.client.budgets import Budgets
    from holdfast.client.bulk import BulkOperations
    from holdfast.client.dead_letters import DeadLetters
    from holdfast.client.escalations import Escalations
    from holdfast.client.jobs import JobId, Jobs
    from holdfast.client.kinds import Kinds
    from holdfast.client.limits import Limits
    from holdfast.client.locks import Locks
    from holdfast.client.queues import Queues
    from holdfast.client.schedules import Schedules
    from holdfast.client.services import Services
    from holdfast.client.settings import RuntimeSettings
    from holdfast.client.tokens import Tokens
    from holdfast.client.webhooks import Webhooks
    from holdfast.client.workers import Workers
    from holdfast.resources.event import Event


class Client(Protocol):
    """One namespace for each resource, the events and the time.

    `LocalClient` asks a database, `RemoteClient` a server; `ScopedClient` is a local one for one caller of a server.
    """

    @property
    def audit(self) -> "Audit":
        """The audit: who did what through the server or the command line."""

    @property
    def budgets(self) -> "Budgets":
        """The budgets: how much of each is spent and by whom, and their settings."""

    @property
    def bulk(self) -> "BulkOperations":
        """Bulk operations: one change to many jobs."""

    @property
    def dead_letters(self) -> "DeadLetters":
        """The dead letters: the jobs that have failed, and their groups."""

    @property
    def escalations(self) -> "Escalations":
        """The escalations, and tests of their policies."""

    @property
    def jobs(self) -> "Jobs":
        """The jobs."""

    @property
    def kinds(self) -> "Kinds":
        """The kinds of jobs."""

    @property
    def limits(self) -> "Limits":
        """The limits in force: how much of each is in use, and their settings."""

    @property
    def locks(self) -> "Locks":
        """The locks that are held."""

    @property
    def queues(self) -> "Queues":
        """The queues and their settings."""

    @property
    def schedules(self) -> "Schedules":
        """The schedules, and maintenance of them."""

    @property
    def services(self) -> "Services":
        """The services: what they did, and how they run."""

    @property
    def settings(self) -> "RuntimeSettings":
        """The settings in force."""

    @property
    def tokens(self) -> "Tokens":
        """The tokens of the server."""

    @property
    def webhooks(self) -> "Webhooks":
        """The endpoints of webhooks."""

    @property
    def workers(self) -> "Workers":
        """The workers."""

    async def now(self) -> datetime:
        """Read what time it is where the jobs are."""

    def events(
        self,
        *,
        types: Iterable[str] = (),
        kinds: Iterable[str] = (),
        queues: Iterable[str] = (),
        jobs: Iterable["JobId"] = (),
    ) -> AbstractAsyncContextManager[AsyncIterator["Event"]]:
        """Hear of all that happens to jobs and queues from the moment the block is entered."""
