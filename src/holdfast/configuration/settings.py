"""One setting as `holdfast config show` lists it."""

from typing import Any

import msgspec

DEFAULT, CODE = "default", "code"


class Setting(msgspec.Struct, frozen=True):
    """One setting: what holds, and who said so."""

    path: str
    value: Any
    origin: str
