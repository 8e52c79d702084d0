"""What every shape of the API has in common."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer

from holdfast.telemetry.redaction import hide, hide_within


def _spelled(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


Moment = Annotated[datetime, PlainSerializer(_spelled, return_type=str, when_used="json")]
Told = Annotated[str, AfterValidator(hide)]
"""What somebody said, a handler or a driver, who may have quoted a secret of the app."""

ToldValue = Annotated[Any, AfterValidator(hide_within)]
"""A JSON value in which such texts may be."""


class Shape(BaseModel):
    """A JSON object that the server answers with; unknown members of a later release may follow."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Asked(BaseModel):
    """A JSON object that the server is asked with; unknown members are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
