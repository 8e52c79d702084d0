"""How often one may ask: each token or login has so many requests in a time, and those who ask less never wait."""

import time
from collections import OrderedDict
from collections.abc import Callable

from holdfast.policies.rate import Rate
from holdfast.server.principal import Principal
from holdfast.server.problems import Problem

_KNOWN = 10_000


class Pacing:
    """Counts requests by who asks: a whole period's worth may come at once, and no more than that in any period."""

    def __init__(self, rate: Rate, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._spacing_s = rate.spacing_us / 1e6
        self._slack_s = self._spacing_s * (rate.times - 1)
        self._now = now
        self._used_until: OrderedDict[tuple[str, int | str], float] = OrderedDict()

    def take(self, principal: Principal) -> None:
        """Count a request, or refuse it."""
        who = (principal.via, principal.name if principal.token_id is None else principal.token_id)
        now = self._now()
        until = max(self._used_until.get(who, now), now)
        wait_s = until - self._slack_s - now
        if wait_s > 0:
            message = f"{principal.name} asks more often than {self._rate.times:,} times in"
            message += f" {self._rate.period_ms / 1_000:g} s; wait {wait_s:.1f} s, and ask less often"
            raise Problem(429, message, "too-many-requests", headers={"retry-after": str(max(1, round(wait_s + 0.5)))})
        self._used_until[who] = until + self._spacing_s
        self._used_until.move_to_end(who)
        if len(self._used_until) > _KNOWN:
            self._used_until.popitem(last=False)
