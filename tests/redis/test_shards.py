"""The option `delivery`: what is accepted, what every mistake is told, and passwords that no message shows."""

from typing import Any

import pytest

from holdfast.errors import ConfigError
from holdfast.shards import RedisDelivery, Shard, masked, read_delivery

URL = "redis://localhost:6379/0"


def test_nothing_means_hints_by_way_of_the_store() -> None:
    assert read_delivery(None) is None


@pytest.mark.parametrize(
    "url",
    [URL, "rediss://user:hunter2@host/1", "unix:///run/redis.sock", "unix:///run/redis.sock?db=1", "redis://host"],
)
def test_one_url_serves_every_priority(url: str) -> None:
    assert read_delivery(url) == RedisDelivery([Shard("all", url, (0, 10), 1)])


def test_two_urls_are_the_usual_bands() -> None:
    settings = read_delivery({"low": "redis://b", "high": "redis://a"})
    assert settings == RedisDelivery([Shard("high", "redis://a", (0, 4), 4), Shard("low", "redis://b", (5, 10), 1)])


def test_as_many_shards_as_wanted() -> None:
    shards = [Shard("Now", URL, (0, 0), 100), Shard("soon", URL, (1, 9), 10), Shard("late", URL, (10, 10))]
    settings = RedisDelivery(iter(shards), prefix="shop")  # type: ignore[arg-type] # a careless caller's iterator
    assert read_delivery(settings) is settings
    assert [list(shard.band) for shard in settings.shards] == [[0], list(range(1, 10)), [10]]
    assert settings.shards[0].name == "now"


def test_keys_share_a_slot() -> None:
    assert RedisDelivery([Shard("all", URL)]).key("high", 5) == "{holdfast}:lane:high:5"
    assert RedisDelivery([Shard("all", URL)], "shop").key("mail", 0) == "{shop}:lane:mail:0"


@pytest.mark.parametrize(
    "value, hint",
    [
        (3, "expected None, a URL like redis://.*got int"),
        (b"redis://host", "got bytes"),
        ("localhost:6379", r"expected redis://host.*got '\*\*\*'"),
        ("http://:hunter2@host", r"expected redis://host.*got '\*\*\*'"),
        ("redis://:hunter2@host:port/0", "escape special characters"),
        ("redis://:hunter2@[::1/0", "escape special characters"),
        ("redis://:hunt/er2@host/0", "escape special characters"),
        ("redis://host/first", "expected a database number after the host"),
        ("unix://", "expected the path of a socket"),
        ({}, 'keys "high" and "low", got an empty one'),
        ({"high": URL}, "got 'high'; for other bands write RedisDelivery"),
        ({"high": URL, "low": URL, "middle": URL}, "got 'high', 'low', 'middle'"),
        ({"high": URL, "low": None}, "shard 'low': url: expected text like redis://.*got NoneType"),
        ({"high": URL, "low": "redis://:hunter2@host:x"}, r"shard 'low': url: .*got 'redis://\*\*\*@host:x'"),
        ([URL], "got list"),
    ],
)
def test_other_values_are_refused_without_showing_a_password(value: Any, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint) as caught:
        read_delivery(value)
    assert "hunt" not in str(caught.value)
    assert "expected" in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "arguments, hint",
    [
        (("", URL), "shard '': name: expected 1 to 64 letters"),
        ((None, URL), "shard None: name: expected"),
        (("a", URL, (5, 4)), r"shard 'a': priorities: .*got \(5, 4\); write \(4, 5\)"),
        (("a", URL, (0, 11)), r"expected \(first, last\), two whole numbers from 0 to 10, got \(0, 11\)"),
        (("a", URL, (-1, 4)), r"got \(-1, 4\)"),
        (("a", URL, (0, 4, 5)), r"got \(0, 4, 5\)"),
        (("a", URL, (0.0, 4)), r"got \(0.0, 4\)"),
        (("a", URL, 4), "got 4"),
        (("a", URL, (0, 4), 0), "weight: expected a whole number from 1 to 100, got 0"),
        (("a", URL, (0, 4), 101), "weight: expected a whole number from 1 to 100, got 101"),
        (("a", URL, (0, 4), True), "weight: expected"),
    ],
)
def test_a_wrong_shard_is_refused(arguments: tuple[Any, ...], hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        Shard(*arguments)


@pytest.mark.parametrize(
    "shards, hint",
    [
        ([], "got an empty list; write Shard"),
        ([URL], "got str; write Shard"),
        (URL, 'got str; a single URL is delivery="redis://'),
        (None, "got NoneType"),
        ([Shard("a", URL, (0, 4)), Shard("A", URL, (5, 10))], "a is defined twice"),
        ([Shard("a", URL, (0, 4)), Shard("b", URL, (4, 10))], "got a and b for 4; let one band begin"),
        ([Shard("a", URL, (0, 4)), Shard("b", URL, (6, 10))], "got none for 5"),
        ([Shard("a", URL, (0, 9))], "got none for 10"),
    ],
)
def test_bands_cover_every_priority_once(shards: Any, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        RedisDelivery(shards)


@pytest.mark.parametrize("prefix", ["", "a b", "{a}", "x" * 65, 3])
def test_a_prefix_is_a_name(prefix: Any) -> None:
    with pytest.raises(ConfigError, match="prefix: expected 1 to 64 letters"):
        RedisDelivery([Shard("all", URL)], prefix)


def test_no_repr_shows_a_password() -> None:
    settings = RedisDelivery([Shard("all", "rediss://me:hunter2@host:1/2?password=hunter3", (0, 10), 2)])
    assert "hunter" not in repr(settings)
    assert "rediss://***@host:1/2?***" in repr(settings)
    assert "priorities=(0, 10), weight=2" in repr(settings)


@pytest.mark.parametrize(
    "url, shown",
    [
        ("redis://host:1/0", "redis://host:1/0"),
        ("redis://:hunter2@host/0", "redis://***@host/0"),
        ("redis://:hunt/er2@host/0", "redis://***"),
        ("redis://:hunter2@[::1/0", "***"),
        ("hunter2", "***"),
        (None, "***"),
    ],
)
def test_in_doubt_more_is_hidden(url: Any, shown: str) -> None:
    assert masked(url) == shown
