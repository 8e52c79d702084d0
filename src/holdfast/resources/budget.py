"""A budget, as client, HTTP API, command line and dashboard show it. Amounts are numbers of its unit."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from holdfast.about import About, about
from holdfast.policies.allowance import Level
from holdfast.policies.budgets import Budget
from holdfast.resources.examples import JOB_ID, MOMENT
from holdfast.resources.request import Request

_ID_BYTES = 40
_MOST_CLAIMS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetThreshold:
    """What happens from a share of a budget on."""

    at: Annotated[float, About("The share: 0.8 is 80 %.", 0.8)]
    action: Annotated[str, About("What happens: alert, reduce, defer or stop.", "alert")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetInfo:
    """A budget: its settings, and how much of it is spent in this period, under one key."""

    name: Annotated[str, about(Budget, "name")]
    queue: Annotated[str | None, about(Budget, "queue")] = None
    kinds: Annotated[list[str], about(Budget, "kinds")] = field(default_factory=list)
    key_path: Annotated[str | None, about(Budget, "key")] = None
    ceiling: Annotated[float, about(Budget, "amount", 500.0)]
    unit: Annotated[str, about(Budget, "unit")]
    period: Annotated[str, about(Budget, "period")]
    tz: Annotated[str, about(Budget, "tz")]
    thresholds: Annotated[list[BudgetThreshold], about(Budget, "thresholds")] = field(default_factory=list)
    key: Annotated[
        str | None,
        About("The key; empty for jobs without one, null where no key has come up in this period.", "tenant-7"),
    ] = None
    level: Annotated[Level, About("The strongest action whose threshold is reached.", "alert")] = "normal"
    share: Annotated[float, About("How much of it is spent or lost: 0.8 is 80 %.", 0.82)] = 0.0
    spent: Annotated[float, About("How much is spent.", 410.5)] = 0.0
    reserved: Annotated[float, About("How much is set aside for running jobs.", 2.0)] = 0.0
    lost: Annotated[
        float, About("How much is set aside for jobs of lost workers; it counts as spent until it is settled.", 0.0)
    ] = 0.0
    starts_at: Annotated[datetime, About("When the period began.", "2026-11-01T00:00:00Z")]
    ends_at: Annotated[datetime, About("When the next period begins.", "2026-12-01T00:00:00Z")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetList:
    """The budgets; one that is divided by a key stands there once for each key that has come up in this period."""

    budgets: list[BudgetInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendPart:
    """What one kind, key, actor or queue has spent."""

    name: Annotated[str | None, About("The kind, key, actor or queue; null for jobs without an actor.", "summarise")]
    amount: Annotated[float, About("How much it has spent.", 120.25)]
    entries: Annotated[int, About("In how many entries of the ledger.", 311)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What was spent in a period, the largest part first."""

    by: Annotated[str, About("What it is broken down by: kind, key, actor or queue.", "kind")]
    parts: list[SpendPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostSpend:
    """What was set aside for a job whose worker was lost: the rest counts as spent until it is settled."""

    job: Annotated[str, About("The job.", JOB_ID)]
    claim: Annotated[int, About("Its claim.", 1)]
    key: Annotated[str, About("The key of the budget; empty where it has none.", "tenant-7")]
    estimate: Annotated[float, About("How much was set aside.", 0.5)]
    spent: Annotated[float, About("How much of that the job has reported.", 0.1)]
    reserved_at: Annotated[datetime, About("When it was set aside.", MOMENT)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostList:
    """What was set aside for jobs of lost workers, at most 1,000."""

    lost: list[LostSpend]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """An amount that a handler has reported."""

    id: Annotated[str, About("Its id.", "1042")]
    at: Annotated[datetime, About("When it was reported.", MOMENT)]
    budget: Annotated[str | None, About("The budget; null where the job is under none.", "ai")] = None
    key: Annotated[str, About("The key of the budget; empty where it has none.", "tenant-7")] = ""
    kind: Annotated[str, About("The kind of the job.", "summarise")]
    queue: Annotated[str, About("The queue of the job.", "high")]
    actor: Annotated[str | None, About("The actor of the job.", "ada")] = None
    job: Annotated[str, About("The job.", JOB_ID)]
    claim: Annotated[int, About("Its claim.", 1)]
    unit: Annotated[str, About("What was spent.", "usd")]
    amount: Annotated[float, About("How much.", 0.02)]
    note: Annotated[str | None, About("What the handler said of it.", "1,200 tokens", quotes=True)] = None
    late: Annotated[bool, About("Whether the claim was no longer running.", example=False)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPage:
    """One page of the ledger, the newest entry first."""

    entries: list[LedgerEntry]
    next: Annotated[str | None, About("`before` of the next page; null on the last one.", "1042")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What came of settling a claim."""

    settled: Annotated[bool, About("Whether anything was set aside for it.", example=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleRequest(Request):
    """Which claim of which job has not spent the rest."""

    job: Annotated[str, About("The job.", JOB_ID)] = field(metadata={"max_length": _ID_BYTES})
    claim: Annotated[int, About("Its claim.", 1)] = field(metadata={"ge": 0, "le": _MOST_CLAIMS})
