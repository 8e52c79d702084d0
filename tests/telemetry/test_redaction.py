"""A password is covered where it stands, and names that are the same text stay readable."""

import pytest

from holdfast import Holdfast
from holdfast.locations import masked
from holdfast.services.secrecy import keep_secrets
from holdfast.telemetry import redaction
from holdfast.telemetry.redaction import COVER, hide


@pytest.fixture(autouse=True)
def _forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_known", set()), ("_public", set()), ("_placed", None), ("_pattern", None)):
        monkeypatch.setattr(redaction, name, value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://postgres:postgres@localhost/postgres",
        "postgresql://holdfast:holdfast@holdfast/holdfast",
        "postgresql://some-app:postgres@db.example.org/app_holdfast",
        "postgresql://ada:ada-lovelace@db.example.org/ada-lovelace-2",
    ],
)
def test_names_stay_readable_that_are_the_text_of_a_password(url: str) -> None:
    keep_secrets(Holdfast(url).config)
    credentials, _, rest = url.rpartition("@")
    start = credentials.rpartition(":")[0]
    user, database = start.rpartition("/")[2], rest.rpartition("/")[2]
    for text in (
        masked(url),
        f'role "{user}" does not exist, nor does database "{database}"',
        f"works on {masked(url)}: queues default",
    ):
        assert hide(text) == text
    assert hide(f"cannot read {url}") == f"cannot read {start}:{COVER}@{rest}"


def test_a_password_that_is_also_a_name_is_covered_where_a_password_stands() -> None:
    keep_secrets(Holdfast("postgresql://postgres:postgres@localhost/jobs").config)
    assert hide("user=postgres password=postgres dbname=jobs") == f"user=postgres password={COVER} dbname=jobs"
    assert hide("{'user': 'postgres', 'password': 'postgres'}") == f"{{'user': 'postgres', 'password': '{COVER}'}}"


def test_a_secret_that_begins_with_a_name_is_covered_whole() -> None:
    redaction.keep(["postgres", "postgresql-rocks"], ["postgresql", "postgres"])
    assert hide("it is postgresql-rocks on postgresql") == f"it is {COVER} on postgresql"


def test_other_secrets_are_covered_wherever_they_stand() -> None:
    keep_secrets(Holdfast("postgresql://ada:s3cr3t-word@localhost/jobs").config)
    assert hide("xs3cr3t-wordx, s3cr3t-word") == f"x{COVER}x, {COVER}"
