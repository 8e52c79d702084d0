"""Electing the leader at a Redis server instead of the store, for those who want it there."""

from dataclasses import dataclass, field
from typing import Annotated

from holdfast import names
from holdfast.about import About
from holdfast.errors import ConfigError, InvalidValue
from holdfast.shards import RedisUrl, Shard, masked

DEFAULT_KEY = "holdfast:leader"


@dataclass(frozen=True)
class RedisElection:
    """The process that holds a key at a Redis server leads; no safety rests on it."""

    url: Annotated[RedisUrl, About("The Redis server.", "redis://localhost/0")] = field(repr=False)
    key: Annotated[names.Text, About("The key that the leader holds.", "holdfast:leader")] = DEFAULT_KEY

    def __post_init__(self) -> None:
        try:
            names.key(self.key, "key")
        except InvalidValue as error:
            message = f"leader: {error}"
            raise ConfigError(message) from error
        Shard("leader", self.url)  # which checks the URL

    def __str__(self) -> str:
        return f"{self.key} at {masked(self.url)}"
