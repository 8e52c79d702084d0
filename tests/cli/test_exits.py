"""Exit codes: every error has one, in one place."""

import json
from collections.abc import Iterator

import psycopg
import pytest

from holdfast import errors
from holdfast.cli.exits import Exit, code_of
from holdfast.errors import HoldfastError
from tests.cli.conftest import Shop


def _all(kind: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _all(child)


def test_every_error_has_a_code() -> None:
    usage = {"InvalidValue", "ArgumentError", "InvalidConfig", "InvalidFilter", "Refused"}
    conflict = {"Conflict", "KeyConflict", "RateLimited", "UniqueConflict", "WrongState"}
    missing, late = (
        {"JobNotFound", "LimitNotFound", "ScheduleNotFound", "UnknownKind"},
        {"OutcomeUnknown", "ResultTimeout"},
    )
    missing |= {
        "LockNotFound",
        "QueueNotFound",
        "EndpointNotFound",
        "BulkNotFound",
        "EscalationNotFound",
        "WorkerNotFound",
        "TokenNotFound",
    }
    missing |= {"BudgetNotFound", "DeadLetterNotFound"}
    for kind in _all(HoldfastError):
        error = kind.__new__(kind)
        expected = {
            **dict.fromkeys(usage, Exit.USAGE),
            **dict.fromkeys(conflict, Exit.CONFLICT),
            **dict.fromkeys(missing, Exit.NOT_FOUND),
            **dict.fromkeys(late, Exit.TIMEOUT),
        }.get(kind.__name__, Exit.ERROR)
        assert code_of(error) is expected, kind


def test_the_codes() -> None:
    assert {code.name: int(code) for code in Exit} == {
        "OK": 0,
        "ERROR": 1,
        "USAGE": 2,
        "NOT_FOUND": 3,
        "CONFLICT": 4,
        "JOB_FAILED": 5,
        "UNHEALTHY": 6,
        "TIMEOUT": 124,
        "INTERRUPTED": 130,
    }


def test_no_answer_in_time_is_124(postgres_shop: Shop, dsn: str) -> None:
    source = (postgres_shop.folder / "shop.py").read_text(encoding="utf-8")
    (postgres_shop.folder / "shop.py").write_text(source.replace('"5s"', '"1500ms"'), encoding="utf-8")
    with psycopg.connect(dsn) as connection:
        connection.execute(f'LOCK TABLE "{postgres_shop.schema}".queues IN SHARE ROW EXCLUSIVE MODE')
        result = postgres_shop("queues", "pause", "high", "--json")
        connection.rollback()
    assert result.exit_code == 124
    error = json.loads(result.stderr)["error"]
    assert (error["type"], error["exit_code"]) == ("OutcomeUnknown", 124)
    assert "it may or may not have happened" in error["message"]


@pytest.mark.parametrize("args", [["jobs", "list"], ["migrate", "status"], ["queues", "pause", "a"]])
def test_a_store_out_of_reach_is_1_and_no_password_is_shown(sqlite_shop: Shop, args: list[str]) -> None:
    url = "postgresql://user:s3cr%40t@127.0.0.1:1/db?password=s3cr2t"
    for more in ([], ["--json"]):
        result = sqlite_shop(*args, "--store", url, *more, app=False)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "127.0.0.1:1" in result.stderr
        assert "s3cr" not in result.stderr
        assert "Traceback" not in result.stderr


def test_errors_as_json(sqlite_shop: Shop) -> None:
    for args, code, kind in (
        (["jobs", "show", "x", "--json"], 2, "InvalidValue"),
        (["jobs", "show", "--json"], 2, "UsageError"),
        (["jobs", "list", "--json", "--nonsense"], 2, "UsageError"),
        (["--nonsense", "jobs", "list", "--json"], 2, "UsageError"),
        (["jobs", "nonsense", "--json"], 2, "UsageError"),
        (["enqueue", "nobody", "--json"], 3, "UnknownKind"),
        (["jobs", "list", "--json"], 1, "StoreUnavailable"),
    ):
        result = sqlite_shop(*args)
        assert (result.exit_code, result.stdout) == (code, ""), args
        error = json.loads(result.stderr)["error"]
        assert (error["type"], error["exit_code"]) == (kind, code)
        assert error["message"]


def test_every_error_of_the_package_is_known() -> None:
    named = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert {kind.__name__ for kind in _all(HoldfastError)} >= named
