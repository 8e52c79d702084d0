"""Which Redis server and queue carry the ids of waiting jobs to the workers of an Arq deployment."""

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from holdfast import names
from holdfast.errors import ConfigError, InvalidValue
from holdfast.shards import RedisDelivery, RedisUrl, Shard, masked, read_delivery

DEFAULT_QUEUE = "arq:queue"


@dataclass(frozen=True)
class ArqDelivery:
    """Ids of waiting jobs by way of Arq: `queue` is the queue that its workers read."""

    url: RedisUrl = field(repr=False)
    queue: names.Text = DEFAULT_QUEUE

    def __post_init__(self) -> None:
        try:
            names.key(self.queue, "queue")
        except InvalidValue as error:
            message = f"ArqDelivery(...): {error}"
            raise ConfigError(message) from None
        Shard("arq", self.url)  # which checks the URL
        if {name for name, _ in parse_qsl(urlsplit(self.url).query, keep_blank_values=True)} - {"db"}:
            message = f"ArqDelivery(...): expected a URL without options, for Arq reads none, got {masked(self.url)!r}"
            message += "; write the number of the database behind the host, as in redis://host/1"
            raise ConfigError(message)

    def __str__(self) -> str:
        return f"{self.queue} at {masked(self.url)}"


def read_carrier(value: object) -> RedisDelivery | ArqDelivery | None:
    """Read the option `delivery`, whoever carries; None means hints by way of the store."""
    return value if isinstance(value, ArqDelivery) else read_delivery(value)
