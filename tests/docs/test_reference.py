"""The reference names everything there is, and nothing that is not."""

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import holdfast
from holdfast import errors, filtering, testing
from holdfast.cli.listing import Form
from holdfast.cli.main import standalone
from holdfast.resources.catalogue import resources
from holdfast.server import problems
from holdfast.stores import (
    access,
    alarms,
    budgets,
    bulk,
    cluster,
    deliveries,
    failures,
    limits,
    moving,
    policies,
    searching,
    sla,
    store,
    why,
)
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import quoted
from holdfast.tasks.options import TaskOptions, UsingOptions
from holdfast.transitions import MOVES
from tests.docs import moves
from tests.support.doc_pages import DOCS, PAGES, README, ROOT, blocks, name

WRITTEN = (*PAGES, ROOT / "CHANGELOG.md")
CHOICES = {"-A", "--app", "--store", "--schema", "--server", "--token", "-h", "--help"}
FORMS = {"-o", "--format"}


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """Cut the text below a heading of the second level."""
    found = re.search(rf"^## `?{re.escape(heading)}`?\n(.*?)(?=^## |\Z)", read(page), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page} has no section {heading}"
    return found[1]


def code(text: str) -> set[str]:
    """Collect what is marked as code, with the names before a parenthesis too."""
    marked = re.findall(r"`([^`\n]+)`", text)
    return {*marked, *(mark.partition("(")[0] for mark in marked)}


# ---- Python --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("public", holdfast.__all__)
def test_public_name_is_described(public: str) -> None:
    if getattr(holdfast, public) in resources():  # reference/resources.md is generated from the types
        return
    if public.startswith("__") or not inspect.isclass(getattr(holdfast, public)):
        section("reference/api.md", public)
    elif issubclass(getattr(holdfast, public), Exception):
        assert public in code(section("reference/api.md", "Errors"))
    else:
        section("reference/api.md", public)


@pytest.mark.parametrize(
    "owner", [holdfast.Holdfast, holdfast.BlockingClient, holdfast.JobHandle, holdfast.BlockingHandle]
)
def test_public_member_is_described(owner: type) -> None:
    members = {member for member in dir(owner) if not member.startswith("_")}
    described = code(section("reference/api.md", owner.__name__))
    assert members - described - {"client", "loop"} == set()


@pytest.mark.parametrize("owner", [holdfast.Holdfast, holdfast.Task, holdfast.Pipeline, holdfast.JobHandle])
def test_described_signature_is_the_real_one(owner: type) -> None:
    rows = re.findall(r"^\| `(\w+)\((.*)\)` \|", section("reference/api.md", owner.__name__), re.MULTILINE)
    assert rows
    for member, written in rows:
        parameters = [part.partition("=")[0].lstrip("*") for part in written.split(", ") if part not in ("", "*")]
        real = [parameter for parameter in inspect.signature(getattr(owner, member)).parameters if parameter != "self"]
        assert parameters == real, f"{owner.__name__}.{member}"


def test_every_condition_of_a_filter_is_described() -> None:
    described = code(section("learn/looking.md", "Lists and filters"))
    assert set(holdfast.JobFilter.__struct_fields__) - described == set()


def test_members_of_a_context_are_described() -> None:
    members = {member for member in dir(holdfast.Context) if not member.startswith("_")}
    assert members - code(section("reference/api.md", "Context")) == set()


def test_testing_helpers_are_described() -> None:
    described = code(section("reference/api.md", "holdfast.testing"))
    for owner in (testing.Jobs, testing.Clock):
        for member in vars(owner):
            assert member.startswith("_") or f"{owner.__name__}.{member}" in described
    assert {"in_memory", "controlled"} <= described


def test_options_are_described() -> None:
    assert set(TaskOptions.__annotations__) - code(section("learn/tasks.md", "Options of a task")) == set()
    assert set(UsingOptions.__annotations__) - code(section("learn/enqueue.md", "Options, one by one")) == set()


# ---- errors, configuration -----------------------------------------------------------------------------------------


def error_classes() -> list[type[Exception]]:
    return [found for found in vars(errors).values() if inspect.isclass(found) and issubclass(found, Exception)]


@pytest.mark.parametrize("error", error_classes(), ids=lambda error: error.__name__)
def test_error_is_described(error: type[Exception]) -> None:
    tree, table = read("reference/errors.md").split("| Error |")
    assert re.search(rf"^[ │├└─]*{error.__name__}\b", tree, re.MULTILINE)
    assert f"| `{error.__name__}` |" in table
    if error is not errors.HoldfastError:
        assert re.search(rf"^## .*\b{error.__name__}\b", read("operate/troubleshooting.md"), re.MULTILINE) or (
            error is errors.Conflict
        )


@pytest.mark.parametrize("owner", [holdfast.Holdfast, holdfast.Queue, holdfast.WorkerSettings])
def test_parameter_is_described(owner: type) -> None:
    rows = dict(
        re.findall(
            r"^\| `(\w+)` \| .* \| (.*) \| .* \|$", section("reference/configuration.md", owner.__name__), re.MULTILINE
        )
    )
    parameters = {key: value for key, value in inspect.signature(owner).parameters.items() if key != "self"}
    assert list(rows) == list(parameters)
    for key, parameter in parameters.items():
        if isinstance(parameter.default, bool):
            assert rows[key] == f"`{parameter.default}`"
        elif isinstance(parameter.default, int | str):
            shown = f"{parameter.default:_}" if isinstance(parameter.default, int) else f'"{parameter.default}"'
            assert rows[key] == f"`{shown}`"


# ---- the server ----------------------------------------------------------------------------------------------------

SERVER = ROOT / "src" / "holdfast" / "server"


def error_words() -> Iterator[str]:
    """List the words of all errors that the server answers with, as they stand in its code."""
    yield from (word for _, _, word in problems._STATUSES)
    for file in SERVER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Problem":
                yield from (str(word.value) for word in node.args[2:3] if isinstance(word, ast.Constant))


def test_errors_of_the_server_are_described() -> None:
    table = read("reference/http.md").partition("### Errors")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == set(error_words())


def test_terms_of_the_filter_language_are_described() -> None:
    text = read("reference/filters.md")
    described = {mark.rstrip(":") for mark in re.findall(r"`([a-z-]+:?)(?:[^`]*)`", text)}
    assert set(filtering.TERMS) - described == set()
    states = re.search(r"^\| `state:` .*$", text, re.MULTILINE)
    assert states is not None
    assert set(filtering._STATES) - code(states[0]) == set()


def test_keys_of_the_dashboard_are_described() -> None:
    layout = (SERVER / "pages" / "templates" / "layout.html").read_text(encoding="utf-8")
    table = section("operate/dashboard.md", "On every page")
    written = {key for row in re.findall(r"^\| (`.*`.*?) \|", table, re.MULTILINE) for key in code(row)}
    assert written == set(re.findall(r"<kbd>(.*?)</kbd>", layout))


# ---- command line --------------------------------------------------------------------------------------------------


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Go through all verbs below a noun."""
    for word, command in group.commands.items():
        if command.hidden:  # another name of a command
            continue
        if isinstance(command, click.Group):
            yield from commands(command, *path, word)
        else:
            yield " ".join((*path, word)), command


COMMANDS = dict(commands(standalone))
NOUNS_OF_NOUNS = [path.split()[:2] for path in COMMANDS if len(path.split()) == 3]


def test_every_command_has_a_section_and_no_other() -> None:
    titles = set(re.findall(r"^## ([a-z][a-z -]*)$", read("reference/cli.md"), re.MULTILINE))
    assert titles == set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS)
def test_command_is_described(path: str) -> None:
    text = section("reference/cli.md", path)
    own = {
        flag
        for parameter in COMMANDS[path].params
        for flag in (*parameter.opts, *parameter.secondary_opts)
        if isinstance(parameter, click.Option)
    }
    described = {flag for flag in code(text) if flag.startswith("-")}
    assert own - CHOICES - FORMS - described == set(), "not described"
    assert described - own - CHOICES - {"-"} == set(), "does not exist"
    assert f"`holdfast {path}" in text


def test_options_that_choose_an_app_are_described() -> None:
    assert {"-A", "--app", "--store", "--schema"} <= code(section("reference/cli.md", "Which app"))


def test_the_forms_of_lists_are_described_once_for_all() -> None:
    assert {*FORMS, *Form} <= code(section("reference/cli.md", "Output"))


def test_exit_codes_are_those_of_the_help() -> None:
    context = click.Context(standalone)
    promised = re.findall(r"\b(\d+) \w", (standalone.epilog or context.get_help()).partition("Exit codes:")[2])
    described = re.findall(r"^\| (\d+) \|", section("reference/cli.md", "Exit codes"), re.MULTILINE)
    assert described == promised


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_mentioned_command_exists(page: Path) -> None:
    known = {*COMMANDS, *standalone.commands, "NOUN VERB", "VERB"}
    known |= {path.replace("dead-letters", "dlq") for path in COMMANDS}  # its other name
    lines = [
        line for block in blocks(page, "shell") for line in block.code.splitlines() if line.startswith("holdfast ")
    ]
    lines += re.findall(r"`(holdfast [^`]+)`", page.read_text(encoding="utf-8"))
    for line in lines:
        words = re.sub(r"(-A|--store|--schema) \S+", "", line).replace("|", " ").split()[1:]
        is_noun = len(words) > 1 and (words[0] == "NOUN" or isinstance(standalone.commands.get(words[0]), click.Group))
        length = 3 if words[:2] in NOUNS_OF_NOUNS else 2 if is_noun else 1
        assert " ".join(words[:length]) in known, line


# ---- SQL, states, verbs --------------------------------------------------------------------------------------------


async def test_columns_of_the_view_are_described(postgres: PostgresStore) -> None:
    query = "SELECT column_name FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2"
    found = {row[0] for row in await postgres.pool.fetch(query, postgres.schema, "all_jobs")}
    text = read("reference/sql.md").partition("### The view all_jobs")[2].partition("### Tables")[0]
    described = set(re.findall(r"`(\w+)`", text.partition("<!-- columns: begin -->")[2]))
    assert found - described == set()
    rows = re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE)
    assert {column for row in rows for column in re.findall(r"`(\w+)`", row)} - found == set()


async def test_tables_are_described(postgres: PostgresStore) -> None:
    query = """SELECT relname FROM pg_class WHERE relnamespace = $1::text::regnamespace
        AND relkind IN ('r', 'p') AND NOT relispartition"""
    found = {row[0] for row in await postgres.pool.fetch(query, postgres.schema)}
    text = read("reference/sql.md").partition("### Tables")[2].partition("### Ids")[0]
    described = {
        table for row in re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE) for table in re.findall(r"`(\w+)`", row)
    }
    assert described == found


async def test_fields_and_answers_of_enqueue_v1_are_described(postgres: PostgresStore) -> None:
    call = f"SELECT * FROM {quoted(postgres.schema)}.enqueue_v1($1::text::jsonb)"
    with pytest.raises(errors.DataRefused, match="expected one of") as refused:
        await postgres.pool.fetch(call, '[{"kind": "x", "no_such_field": 1}]')
    fields = str(refused.value).partition("expected one of ")[2].split(", ")
    (answer,) = await postgres.pool.fetch(call, '[{"kind": "x"}]')
    tables = section("learn/transactional.md", "Plain SQL, from any language").split("It answers one row per job")
    rows = [re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) for table in tables]
    assert rows == [fields, list(answer.keys())]


def test_states_are_described() -> None:
    assert {state.value for state in holdfast.JobState} == set(
        re.findall(r"^\| `(\w+)` \|", read("explain/states.md").partition("## The way through")[0], re.MULTILINE)
    )


def test_table_of_moves_is_that_of_the_code() -> None:
    assert moves.written() == moves.table(), "run: python -m tests.docs.moves"


def test_every_verb_of_a_move_is_explained() -> None:
    text = section("explain/states.md", "The way through") + section("explain/states.md", "What the verbs mean")
    assert [move.verb for move in MOVES if move.verb not in text] == []


def test_every_verb_says_how_the_unknown_is_resolved() -> None:
    roles = (
        store.JobStore,
        searching.SearchStore,
        store.WorkStore,
        store.UpkeepStore,
        store.LeaseStore,
        store.QueueStore,
        policies.PolicyStore,
        store.EventStore,
        deliveries.DeliveryStore,
        alarms.AlarmStore,
        alarms.NoticeStore,
        store.RetentionStore,
        failures.FailureStore,
        bulk.BulkStore,
        sla.SlaStore,
        sla.TuningStore,
        why.WhyStore,
        access.AccessStore,
        cluster.LockStore,
        limits.LimitStore,
        budgets.BudgetStore,
        cluster.AnnounceStore,
        cluster.ScheduleStore,
        cluster.SettingStore,
        cluster.LeaderStore,
        store.WakeStore,
        store.TransactionStore,
        moving.MoveStore,
    )
    verbs = {verb for role in roles for verb in vars(role) if not verb.startswith("_")}
    table = read("explain/guarantees.md").partition("<!-- verbs: begin -->")[2].partition("<!-- verbs: end -->")[0]
    rows = re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE)
    assert {verb for row in rows for verb in re.findall(r"`(\w+)`", row)} == verbs


def test_answers_are_described() -> None:
    assert {answer.name for answer in holdfast.Answer} <= code(section("learn/looking.md", "Many at once"))


# ---- names ---------------------------------------------------------------------------------------------------------


def test_readme_shows_the_first_example() -> None:
    (shown, *_) = blocks(README, "python")
    example = (README.parent / "examples" / "first.py").read_text(encoding="utf-8")
    plain = re.sub(r'^ *""".*"""\n', "", example, flags=re.MULTILINE)
    assert shown.code.strip() == plain.strip()


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README.read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []
    assert {f"examples/{example.name}" for example in (ROOT / "examples").glob("*.py")} <= set(links)


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_mentioned_name_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name == "CHANGELOG.md":
        text = re.split(r"^## \[\d", text, flags=re.MULTILINE)[0]  # a released section names what there was then
    for mentioned in re.findall(r"`(holdfast(?:\.(?!ya?ml|toml)\w+)+)`", text):
        pkgutil.resolve_name(mentioned)
