"""A token, as the client, the HTTP API, the command line and the dashboard show it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from holdfast.about import About
from holdfast.resources.examples import MOMENT
from holdfast.resources.request import Request

RoleName = Literal["viewer", "operator", "admin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token; of its secret only the end is known."""

    id: Annotated[str, About("Its number.", "17")]
    name: Annotated[str, About("Whose it is; the audit says it of what is done with the token.", "ci")]
    hint: Annotated[str, About("The end of its secret.", "Yk4w")]
    role: Annotated[str, About("What may be done with it: viewer, operator or admin.", "operator")]
    queues: Annotated[list[str] | None, About("The queues that may be seen with it; null for all.", ["high"])] = None
    created_at: Annotated[datetime, About("When it was made.", MOMENT)]
    created_by: Annotated[str, About("Who made it.", "ada")]
    expires_at: Annotated[datetime | None, About("When it ends; null for never.", "2027-02-14T09:30:00Z")] = None
    used_at: Annotated[datetime | None, About("When it was used last, to the minute.", MOMENT)] = None
    revoked_at: Annotated[datetime | None, About("When it was revoked.", MOMENT)] = None
    revoked_by: Annotated[str | None, About("Who revoked it.", "ada")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedToken(Token):
    """A token that was just made: its secret is shown this once."""

    secret: Annotated[str, About("The secret.", "hf_4f5nJ0ZJx1S9m0rUq9mE6v0nN8i4l2b7o3c6d5e8Yk4w")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenList:
    """The tokens that see no more than the caller, the youngest first; expired and revoked ones for a month."""

    tokens: list[Token]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest(Request):
    """What a token is for: its name in the audit, what it may do, which queues it may see, and for how long."""

    name: Annotated[str, About("Whose it is; the audit says it of what is done with the token.", "ci")] = field(
        metadata={"min_length": 1, "max_length": 64}
    )
    role: Annotated[RoleName, About("What may be done with it.", "operator")] = "viewer"
    queues: Annotated[list[str] | None, About("The queues that may be seen with it; all if left out.", ["high"])] = (
        field(default=None, metadata={"min_length": 1, "max_length": 100})
    )
    expires_in: Annotated[str | None, About("After how long it ends; never if left out.", "90d")] = field(
        default=None, metadata={"max_length": 40}
    )
