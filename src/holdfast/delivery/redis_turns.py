"""Who is served how often: the smooth weighted rotation, in which the heavy go first and the light never starve."""

from collections.abc import Sequence


class Turns:
    """Deals turns to numbered shards by their weights, evenly spread."""

    def __init__(self, weights: Sequence[int]) -> None:
        self._weights = tuple(weights)
        self._among: tuple[int, ...] = ()
        self._credit: dict[int, int] = {}

    def deal(self, turns: int, among: Sequence[int]) -> dict[int, int]:
        """Deal some turns to those shards that can be asked; each gets its share, those without one are left out."""
        if tuple(among) != self._among:
            self._among, self._credit = tuple(among), dict.fromkeys(among, 0)
        total = sum(self._weights[shard] for shard in among)
        # After as many turns as there are weights everybody is where they began, so whole rounds need no counting.
        rounds, rest = divmod(turns, total)
        dealt = {shard: rounds * self._weights[shard] for shard in among}
        for _ in range(rest):
            for shard in among:
                self._credit[shard] += self._weights[shard]
            chosen = max(among, key=self._credit.__getitem__)
            self._credit[chosen] -= total
            dealt[chosen] += 1
        return {shard: share for shard, share in dealt.items() if share}
