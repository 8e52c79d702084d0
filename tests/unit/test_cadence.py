"""How services are set: what is left out, what is refused, and what people change at run time."""

from typing import Any

import pytest

from holdfast import ConfigError, Holdfast, Service
from holdfast.cadence import DEFAULTS, overridden, read_services


def test_what_is_left_out_stays_as_it_is_by_default() -> None:
    services = read_services({"promotion": Service(batch=50), "rollups": Service(enabled=False)})
    assert (services["promotion"].interval_s, services["promotion"].batch) == (5.0, 50)
    assert (services["rollups"].interval_s, services["rollups"].enabled) == (60.0, False)
    assert services["rescue"] == DEFAULTS["rescue"]
    assert list(services) == list(DEFAULTS)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"interval": "9ms"}, "interval: expected from 10 ms to a day, got '9ms'"),
        ({"interval": "2d"}, "interval: expected from 10 ms to a day, got '2d'"),
        ({"interval": "soon"}, "interval"),
        ({"batch": 0}, "batch"),
        ({"batch": 10_001}, "batch"),
        ({"enabled": "no"}, "enabled: expected true or false, got 'no'"),
    ],
)
def test_what_no_service_can_be_is_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Service(**options)
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    "services, expected",
    [
        ({"nobody": Service()}, "expected one of promotion, schedules"),
        ({"promotion": {"batch": 5}}, r"expected Service\(...\) for 'promotion'"),
        ({"lane_counts": Service(batch=5)}, "'lane_counts' takes no batch"),
    ],
)
def test_an_app_refuses_what_it_cannot_mean(services: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Holdfast("sqlite://", services=services)


def test_what_people_set_is_applied() -> None:
    changed = overridden(DEFAULTS["promotion"], {"interval": "0.5", "batch": "7", "enabled": "false"})
    assert (changed.interval_s, changed.batch, changed.enabled) == (0.5, 7, False)


@pytest.mark.parametrize(
    "changes", [{"interval": '"soon"'}, {"interval_s": "5"}, {"nothing": "1"}, {"batch": "{"}, {"interval": "[]"}]
)
def test_what_cannot_be_read_is_refused_as_one_error(changes: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="service: "):
        overridden(DEFAULTS["promotion"], changes)
