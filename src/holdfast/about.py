"""What people read about one field of a setting or a resource: a sentence and an example.

It stands beside the type, `workers: Annotated[int | None, About("Jobs that one worker instance runs at once.", 10)]`.
The OpenAPI document, the reference pages and the help of the configuration are made of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

_Handler = Callable[[Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class About:
    """A sentence and an example; `quotes` says that the value may quote a secret of the app.

    Such a value is an error, a reason or a note: a handler, a person or a driver has written it.
    """

    description: str = ""
    example: Any = None
    quotes: bool = False

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: "_Handler") -> dict[str, Any]:
        """Describe the field in the JSON Schema that pydantic makes."""
        schema = dict(handler(core_schema))
        if self.description:
            schema["description"] = self.description
        if self.example is not None:
            schema["examples"] = [self.example]
        return schema


def about(owner: type, field: str, example: Any = None) -> About:
    """Take the description of a resource's field from the settings type that has the same field."""
    found = about_fields(owner)[field]
    return found if example is None else About(found.description, example, found.quotes)


@cache  # to evaluate the annotations of a type costs milliseconds, and resources ask once for each field
def about_fields(owner: type) -> Mapping[str, About]:
    """Read what is said of each field of a type; a field without an `About` has an empty one."""
    hints = get_type_hints(owner, include_extras=True)
    return {name: _about(hint) for name, hint in hints.items()}


def _about(hint: Any) -> About:
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((note for note in notes if isinstance(note, About)), About())
