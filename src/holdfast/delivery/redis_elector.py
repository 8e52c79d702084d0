"""One leader among many processes, by a key in Redis that only its holder can renew or give up.

No safety rests on it: Redis can lose the key or be asked through a stale replica, and a process can be stopped between
looking and acting, so two may lead for a moment. Whatever a leader does has to be right when two of them do it.
"""

import logging
import random
import secrets
import threading
import time
from typing import Any

from holdfast import moments
from holdfast.delivery.redis_link import ANSWER_S, open_client
from holdfast.errors import ConfigError

_logger = logging.getLogger("holdfast")

_MARGIN = 0.1  # of the time to live: clocks drift, and whoever looks needs a moment to act
_SLACK_S = 0.05
_RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class RedisElector:
    """Stands for election from `start` to `stop`, on a thread of its own so that no busy event loop can delay it.

    `holder` is for people to read, such as a host name: what makes it unique to this elector is added.
    """

    def __init__(self, url: str, key: str, holder: str, ttl_s: float = 10.0, renew_s: float = 3.0) -> None:
        if not 0 < renew_s <= ttl_s / 2:
            message = f"renew_s: expected more than 0 and at most half of ttl_s ({ttl_s:g}), got {renew_s:g}; one lost"
            message += " renewal must not cost the lead"
            raise ConfigError(message)
        self.holder = f"{holder}:{secrets.token_hex(8)}"
        self._key = key
        self._ttl_s = ttl_s
        self._renew_s = renew_s
        self._client: Any = open_client("redis", url, ANSWER_S)
        self._leads_until = 0.0
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_leader(self) -> bool:
        """Whether the last answer said so, and it is not too old."""
        return time.monotonic() < self._leads_until

    def start(self) -> None:
        """Begin to stand for election; it returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="holdfast stands for election", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Lead no longer, and let the next one begin at once; it may take as long as Redis may take to answer."""
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._is_stopping.wait(self._stand()):
            pass
        self._leads_until = 0.0
        try:
            self._client.eval(_RELEASE, 1, self._key, self.holder)
        except Exception as error:  # noqa: BLE001 - whatever it is, the key ends by itself
            _logger.debug("the lead of %s was not given up in Redis: %s", self._key, error)

    def _stand(self) -> float:
        """Renew the key, or take it; say after how many seconds to do so again."""
        began = time.monotonic()
        try:
            if self._has_key():
                if not self.is_leader:
                    moments.reach("elected", holder=self.holder)
                self._leads_until = began + self._ttl_s * (1 - _MARGIN)
                return self._renew_s
            self._leads_until = 0.0
            left_ms = int(self._client.pttl(self._key))
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody can tell who leads
            self._leads_until = 0.0
            _logger.debug("no election in Redis for %s: %s", self._key, error)
            return self._renew_s * random.uniform(0.5, 1.0)
        # Whoever holds it may be gone, and then it ends before it would be looked at again.
        return min(self._renew_s, max(left_ms, 0) / 1_000 + _SLACK_S)

    def _has_key(self) -> bool:
        ttl_ms = round(self._ttl_s * 1_000)
        if self._client.eval(_RENEW, 1, self._key, self.holder, ttl_ms):
            return True
        return bool(self._client.set(self._key, self.holder, nx=True, px=ttl_ms))
