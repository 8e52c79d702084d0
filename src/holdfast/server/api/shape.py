"""What every shape of the API has in common."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer


def _spelled(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


Moment = Annotated[datetime, PlainSerializer(_spelled, return_type=str, when_used="json")]


class Shape(BaseModel):
    """A JSON object that the server answers with; unknown members of a later release may follow."""

    model_config = ConfigDict(from_attributes=True, frozen=True)
