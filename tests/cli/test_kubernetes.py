"""What is printed for Kubernetes: accepted by its schemas, and meaning what it should."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from pydantic import SecretStr

from holdfast.deploy.autoscale import jobs_in_hand
from holdfast.deploy.kubernetes import text
from holdfast.deploy.pods import USER, Manifest
from holdfast.deploy.values import Facts, read_file, read_values
from holdfast.errors import InvalidValue
from holdfast.schedules import Schedule
from holdfast.stores.postgres.store import PostgresStore
from tests.cli.manifests import CHOSEN, FOLDER, SCHEDULES, objects

SCALED_OBJECT = json.loads((Path(__file__).parent / "scaled_object.schema.json").read_text(encoding="utf-8"))
VERSIONS = ("1.27", kubernetes_validate.latest_version())
CHOICES: list[dict[str, Any]] = [
    *CHOSEN.values(),
    {"autoscale": "keda", "min_replicas": 0},
    {"autoscale": "hpa", "schedules": "cronjob"},
    {"server_replicas": 2, "server_url": "https://jobs.example.org/shop", "metrics": 9464},
    {"namespace": "shop", "queues": ["high", "low"], "concurrency": 4, "processes": 2, "replicas": 7},
]


def of_kind(kind: str, found: list[Manifest], component: str | None = None) -> list[Manifest]:
    chosen = [one for one in found if one["kind"] == kind]
    if component is None:
        return chosen
    return [one for one in chosen if one["metadata"]["labels"]["app.kubernetes.io/component"] == component]


def deployment(component: str, **chosen: Any) -> Any:
    (found,) = of_kind("Deployment", objects(**chosen), component)
    return found["spec"]


def cronjob(schedule: Schedule, **chosen: Any) -> Any:
    (found,) = of_kind("CronJob", objects([schedule], schedules="cronjob", **chosen))
    return found["spec"]


# ---- the schemas ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", CHOICES)
@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_accepts_every_object(chosen: dict[str, Any], version: str) -> None:
    documents = list(yaml.safe_load_all(text(objects(**chosen))))
    assert documents == objects(**chosen), "what is read back is what was meant"
    for document in documents:
        if document["kind"] == "ScaledObject":
            jsonschema.validate(document, SCALED_OBJECT)
        else:
            kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_would_notice() -> None:
    (found, *_) = objects()
    found["spec"]["template"]["spec"]["terminationGracePeriod"] = 5
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(found, VERSIONS[-1], strict=True)
    (scaled,) = of_kind("ScaledObject", objects(autoscale="keda"))
    scaled["spec"]["triggers"][0]["metadata"]["targetQueryValue"] = 10
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(scaled, SCALED_OBJECT)


@pytest.mark.parametrize("file", CHOSEN)
def test_the_example_is_what_is_printed(file: str) -> None:
    written = (FOLDER / file).read_text(encoding="utf-8")
    assert written == text(objects(**CHOSEN[file])), "run: python -m tests.cli.manifests"


def test_there_are_no_two_objects_of_one_name() -> None:
    for chosen in CHOICES:
        named = [(one["kind"], one["metadata"]["name"]) for one in objects(**chosen)]
        assert len(named) == len(set(named))
        for kind, name in named:
            assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name), (kind, name)


# ---- the server ----------------------------------------------------------------------------------------------------


def test_the_server_is_reached_by_its_service() -> None:
    found = objects(server_replicas=2, server_url="https://jobs.example.org/shop", metrics=9464)
    (service,) = of_kind("Service", found)
    (server,) = of_kind("Deployment", found, "server")
    template = server["spec"]["template"]
    assert server["spec"]["replicas"] == 2
    assert service["spec"]["selector"] == template["metadata"]["labels"]
    (container,) = template["spec"]["containers"]
    assert container["args"] == [
        *("serve", "--host", "0.0.0.0", "--port", "8470"),  # noqa: S104 - a pod is reached from outside
        *("--url", "https://jobs.example.org/shop"),
        *("--host-name", "holdfast-server", "--metrics"),
    ]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert [port["targetPort"] for port in service["spec"]["ports"]] == list(ports)
    asked = {probe: container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")}
    assert {probe: get["path"] for probe, get in asked.items()} == {
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert all(get["port"] in ports for get in asked.values())
    assert "annotations" not in template["metadata"], "its metrics need a token"
    assert of_kind("PodDisruptionBudget", found, "server")
    assert not of_kind("Service", objects())


def test_an_address_needs_a_server() -> None:
    with pytest.raises(InvalidValue, match="expected server_replicas with it"):
        objects(server_url="https://jobs.example.org")
    with pytest.raises(InvalidValue, match="server_url: expected an address"):
        objects(server_replicas=1, server_url="jobs.example.org")


# ---- pods ----------------------------------------------------------------------------------------------------------


def pods(found: list[Manifest]) -> list[Any]:
    templates = [one["spec"]["template"] for one in of_kind("Deployment", found)]
    templates += [one["spec"]["jobTemplate"]["spec"]["template"] for one in of_kind("CronJob", found)]
    return [template["spec"] for template in templates]


def test_no_pod_runs_as_root_or_writes_anywhere_but_its_own_tmp() -> None:
    found = pods(objects(schedules="cronjob"))
    assert len(found) == 6
    for pod in found:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == USER > 0
        assert pod["automountServiceAccountToken"] is False
        assert pod["volumes"] == [{"name": "tmp", "emptyDir": {}}]
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]
            assert "cpu" not in container["resources"]["limits"]


def test_the_url_comes_from_the_secret_and_stands_nowhere_else() -> None:
    for pod in pods(objects(schedules="cronjob", secret="database", url_variable="SHOP_URL")):
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            variables = {variable.pop("name"): variable for variable in map(dict, container["env"])}
            assert variables["HOLDFAST_APP"] == {"value": "shop.tasks:app"}
            assert variables["SHOP_URL"] == {"valueFrom": {"secretKeyRef": {"name": "database", "key": "SHOP_URL"}}}
            assert "HOLDFAST_STORE" not in variables, "the command line takes an app or a store, not both"


def test_pods_have_the_time_that_the_app_gives_its_jobs() -> None:
    for grace_s, expected in ((30, 45), (0, 15), (0.2, 16), (3_600, 3_615)):
        facts = Facts("shop.tasks:app", "holdfast", ("default",), 10, grace_s)
        (worker, *_) = of_kind("Deployment", objects(SCHEDULES, facts), "worker")
        assert worker["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == expected


def test_selectors_and_budgets_lead_to_their_own_pods() -> None:
    found = objects()
    own = {}
    for component in ("worker", "services"):
        spec = deployment(component)
        (budget,) = of_kind("PodDisruptionBudget", found, component)
        own[component] = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == own[component] == budget["spec"]["selector"]["matchLabels"]
        assert budget["spec"]["maxUnavailable"] == 1
    assert own["worker"] != own["services"]
    assert own["worker"] != of_kind("Deployment", objects(name="other"))[0]["spec"]["selector"]["matchLabels"]


def test_workers_are_started_as_chosen() -> None:
    (container,) = deployment("worker")["template"]["spec"]["containers"]
    assert [*container["command"], *container["args"]] == ["holdfast", "worker"]
    chosen = deployment("worker", queues=["high", "low"], concurrency=20, processes=2)
    (container,) = chosen["template"]["spec"]["containers"]
    assert container["args"] == ["worker", "--queues", "high,low", "--concurrency", "20", "--processes", "2"]
    (services,) = deployment("services")["template"]["spec"]["containers"]
    assert services["args"] == ["services", "run"]


def test_the_schema_is_brought_up_to_date_first_unless_it_is_not_to_be() -> None:
    for component in ("worker", "services"):
        (migrate,) = deployment(component)["template"]["spec"]["initContainers"]
        assert migrate["args"] == ["migrate", "up"]
        assert "initContainers" not in deployment(component, migrate=False)["template"]["spec"]


# ---- autoscaling ---------------------------------------------------------------------------------------------------


def test_who_scales_the_workers_counts_them_alone() -> None:
    assert deployment("worker", replicas=3)["replicas"] == 3
    for autoscale in ("keda", "hpa"):
        assert "replicas" not in deployment("worker", autoscale=autoscale)
        assert deployment("services", autoscale=autoscale)["replicas"] == 2
    assert of_kind("ScaledObject", objects()) == of_kind("HorizontalPodAutoscaler", objects()) == []


def test_a_worker_is_wanted_for_as_many_jobs_as_one_has_slots() -> None:
    for concurrency, slots in ((None, "10"), (25, "25")):
        (scaled,) = of_kind("ScaledObject", objects(autoscale="keda", concurrency=concurrency))
        assert scaled["spec"]["triggers"][0]["metadata"]["targetQueryValue"] == slots
        (scaler,) = of_kind("HorizontalPodAutoscaler", objects(autoscale="hpa", concurrency=concurrency))
        assert scaler["spec"]["metrics"][0]["external"]["target"]["averageValue"] == slots
        for one in (scaled, scaler):
            assert one["spec"]["scaleTargetRef"]["name"] == "holdfast-worker"


async def test_keda_counts_what_is_ready_and_runs_within_bounds(postgres: PostgresStore) -> None:
    facts = Facts("shop.tasks:app", postgres.schema, ("high", "default", "low"), concurrency=3, grace_s=30)
    values = read_values({"image": "shop:1.0", "autoscale": "keda", "max_replicas": 4}, "the test")
    query = jobs_in_hand(values, facts)

    async def insert(queue: str, state: str, count: int) -> None:
        columns = "id, kind, queue, priority, state, position, payload, run_at, enqueued_at, max_attempts, max_crashes"
        await postgres.pool.fetch(
            f"""INSERT INTO {postgres.schema}.jobs ({columns})
                SELECT nextval('{postgres.schema}.position_seq'), 'x', $1, 5, $2, n, '{{}}', now(), now(), 5, 3
                FROM generate_series(1, $3) AS n""",
            queue,
            state,
            count,
        )

    async def counted() -> int:
        (row,) = await postgres.pool.fetch(query)
        found: int = row[0]
        return found

    assert await counted() == 0
    await insert("high", "queued", 2)
    await insert("default", "running", 4)
    await insert("default", "scheduled", 50)
    await insert("other", "queued", 50)
    assert await counted() == 6
    await insert("low", "queued", 500)
    assert await counted() == 6 + 12, "no more than 4 pods with 3 slots each could take"
    await postgres.pool.fetch(f"INSERT INTO {postgres.schema}.queues (name, paused_at) VALUES ('low', now())")
    assert await counted() == 6, "a paused queue needs no workers"


# ---- schedules -----------------------------------------------------------------------------------------------------


def elsewhere(**chosen: Any) -> list[list[str]]:
    """What the container of each pod is told to leave to others."""
    containers = [pod["containers"][0] for pod in pods(objects(**chosen))]
    name = "HOLDFAST_SCHEDULES_ELSEWHERE"
    return [[one["value"] for one in container["env"] if one["name"] == name] for container in containers]


def test_schedules_are_fired_by_one_side_only() -> None:
    assert of_kind("CronJob", objects()) == []
    assert elsewhere() == [[], []]
    assert len(of_kind("CronJob", objects(schedules="cronjob"))) == len(SCHEDULES)
    names = "credential_reencrypt,git_ref_audit,lifecycle_eval,purgatory_cleanup"
    assert elsewhere(schedules="cronjob") == [[names]] * 6, "all of them publish what the app defines"


def test_a_cronjob_enqueues_under_the_name_of_its_job() -> None:
    schedule = Schedule(name="Nightly.Report:eu", kind="report", cron="15 2 * * mon-fri", tz="Europe/Berlin")
    spec = cronjob(schedule)
    assert (spec["schedule"], spec["timeZone"], spec["suspend"]) == ("15 2 * * MON-FRI", "Europe/Berlin", False)
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["restartPolicy"] == "OnFailure"
    assert [*container["command"], *container["args"]] == [
        *("holdfast", "enqueue", "report", "--unique", "schedule:nightly.report:eu", "--key", "$(JOB_NAME)")
    ]
    field = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}}
    assert {"name": "JOB_NAME", "valueFrom": field} in container["env"]
    (found,) = of_kind("CronJob", objects([schedule], schedules="cronjob"))
    assert found["metadata"]["name"] == "holdfast-nightly-report-eu"


def test_operators_change_times_and_suspend() -> None:
    schedule = Schedule(name="audit", kind="audit", every="5m", tz="Asia/Tokyo", window=("09:00", "17:00"))
    spec = cronjob(schedule, cronjobs={"audit": {"schedule": "@daily", "suspend": True}})
    assert (spec["schedule"], spec["timeZone"], spec["suspend"]) == ("0 0 * * *", "Asia/Tokyo", True)
    disabled = Schedule(name="audit", kind="audit", cron="0 3 * * *", enabled=False)
    assert cronjob(disabled)["suspend"] is True
    assert cronjob(disabled, cronjobs={"audit": {"suspend": False}})["suspend"] is False


def test_arguments_reach_the_command_as_they_are() -> None:
    args = {"text": "costs $(JOB_NAME) and $$5, 'quoted' \"twice\"", "n": 1, "list": [None, "ä"]}
    spec = cronjob(Schedule(name="audit", kind="audit", cron="0 3 * * *", args=args, overlap="queue"))
    arguments = spec["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[:3] == ["enqueue", "audit", "--args"]
    assert json.loads(expanded(arguments[3], {"JOB_NAME": "audit-1"})) == args
    assert expanded(arguments[5], {"JOB_NAME": "audit-1"}) == "audit-1"


def expanded(text: str, variables: dict[str, str]) -> str:
    """Do as Kubernetes does with arguments: `$(NAME)` is a variable, `$$` one dollar."""
    return re.sub(
        r"\$(\$|\((\w+)\))", lambda found: "$" if found[1] == "$" else variables.get(found[2], found[0]), text
    )


@pytest.mark.parametrize(
    "cron, expected",
    [
        ("*/5 * * * *", "*/5 * * * *"),
        ("0 3 * jan,jul mon-fri", "0 3 * jan,jul MON-FRI"),
        ("0 3 * * 7", "0 3 * * 0"),
        ("0 3 * * 5-7", "0 3 * * 0,5,6"),
        ("0 3 * * 1/2", "0 3 * * 0,1,3,5"),  # 7 is Sunday for cron, and nothing for Kubernetes
        ("0 3 1 * mon", "0 3 1 * MON"),  # or, for both
        ("0 3 */2 * *", "0 3 */2 * *"),
    ],
)
def test_lines_mean_the_same_to_kubernetes(cron: str, expected: str) -> None:
    assert cronjob(Schedule(name="audit", kind="audit", cron=cron))["schedule"] == expected


@pytest.mark.parametrize(
    "times, what",
    [
        ({"every": "5m"}, "an interval"),
        ({"cron": "0 3 * * *", "window": ("02:00", "04:00")}, "a window, weekdays of its own or excluded dates"),
        ({"cron": "0 3 * * *", "days": "mon"}, "a window, weekdays of its own or excluded dates"),
        ({"cron": "0 3 * * *", "exclude": ["2026-12-25"]}, "a window, weekdays of its own or excluded dates"),
        ({"cron": "0 3 * * *", "jitter": "5m"}, "jitter"),
        ({"cron": "0 0 3 * * *"}, "seconds"),
        ({"cron": "0 3 L * *"}, "`L`, `W` or `#`"),
        ({"cron": "0 3 LW * *"}, "`L`, `W` or `#`"),
        ({"cron": "0 3 * * mon#2"}, "`L`, `W` or `#`"),
        ({"cron": "0 3 * * 5L"}, "`L`, `W` or `#`"),
        ({"cron": "0 3 */2 * mon"}, "a day of the month that begins with `*/` beside a weekday"),
    ],
)
def test_what_a_cronjob_cannot_express_is_refused_by_name(times: dict[str, Any], what: str) -> None:
    schedule = Schedule(name="audit", kind="audit", **times)
    with pytest.raises(InvalidValue) as refused:
        cronjob(schedule)
    assert str(refused.value) == (
        f"schedule 'audit': a CronJob cannot express {what}; give --schedule audit='MINUTE HOUR DAY MONTH WEEKDAY', "
        "or leave the schedules to Holdfast (--schedules holdfast)"
    )
    assert objects([schedule]), "Holdfast itself can"


def test_cancelling_what_overlaps_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r'cannot express overlap="cancel"; choose "skip" or "queue", or leave'):
        cronjob(Schedule(name="audit", kind="audit", cron="0 3 * * *", overlap="cancel"))


def test_names_that_do_not_fit_are_refused() -> None:
    def at(name: str) -> Schedule:
        return Schedule(name=name, kind="audit", cron="0 3 * * *")

    with pytest.raises(InvalidValue, match="would both be the CronJob holdfast-a-b; rename one"):
        objects([at("a.b"), at("a_b")], schedules="cronjob")
    with pytest.raises(InvalidValue, match="a CronJob's name of at most 52 characters"):
        objects([at("a" * 50)], schedules="cronjob")
    with pytest.raises(InvalidValue, match=r"expected a schedule of the app \(audit\), got 'nightly'"):
        objects([at("audit")], schedules="cronjob", cronjobs={"nightly": {"suspend": True}})
    with pytest.raises(InvalidValue, match="cron: expected five fields"):
        objects([at("audit")], schedules="cronjob", cronjobs={"audit": {"schedule": "daily"}})


# ---- values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chosen, said",
    [
        ({"image": ""}, "image: expected an image, such as"),
        ({"image": "shop 1.0"}, "image: expected an image, such as"),
        ({"name": "Shop"}, "name: expected at most 40 lower-case letters, digits and dashes, got 'Shop'"),
        ({"name": "a" * 41}, "name: expected at most 40"),
        ({"name": "1shop"}, "name: expected"),
        ({"namespace": "my_shop"}, "namespace: expected lower-case letters"),
        ({"secret": "My Secret"}, "secret: expected the name of a Secret"),
        ({"url_variable": "1X"}, "url_variable: expected the name of an environment variable"),
        ({"url_variable": "HOLDFAST_STORE"}, "url_variable: expected a variable that the app itself reads"),
        ({"cpu": "lots"}, "cpu: expected a quantity"),
        ({"memory": "0"}, "memory: expected a quantity"),
        ({"replicas": 0}, "replicas: expected a whole number from 1"),
        ({"services_replicas": 0}, "services_replicas: expected a whole number from 1"),
        ({"concurrency": 0}, "concurrency: expected a whole number from 1"),
        ({"processes": 1_000}, "processes: expected a whole number from 1 to 256"),
        ({"min_replicas": 0}, "min_replicas: expected from 1 to max_replicas (10), got 0"),
        ({"min_replicas": 5, "max_replicas": 4}, "min_replicas: expected from 1 to max_replicas (4), got 5"),
        ({"queues": ["no blanks"]}, "queues: expected 1 to 64 letters"),
        ({"cronjobs": {"lifecycle_eval": {"suspend": True}}}, "give --schedules cronjob"),
        ({"replica": 3}, "object contains unknown field `replica`"),
        ({"replicas": "many"}, "expected `int`, got `str` - at `$.replicas`"),
        ({"autoscale": "cluster"}, "$.autoscale"),
        ({"schedules": "cronjob", "cronjobs": {"lifecycle_eval": {"cron": "x"}}}, "unknown field `cron`"),
    ],
)
def test_wrong_values_are_refused(chosen: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        objects(**chosen)
    assert said in str(refused.value)


@pytest.mark.guards("cronjob-secret")
@pytest.mark.parametrize("argument", [SecretStr("hunter2"), {"$secret": "hunter2"}], ids=["SecretStr", "its mark"])
def test_a_secret_argument_is_refused(argument: Any) -> None:
    schedule = Schedule(name="nightly", kind="report", cron="0 3 * * *", args={"deep": [{"token": argument}]})
    with pytest.raises(InvalidValue, match="cannot express a secret argument, which all could read") as refused:
        objects([schedule], schedules="cronjob")
    assert "hunter2" not in str(refused.value)


def test_an_argument_without_a_form_in_json_is_refused() -> None:
    schedule = Schedule(name="nightly", kind="report", cron="0 3 * * *", args={"day": object()})
    with pytest.raises(InvalidValue, match="schedule 'nightly': args: cannot be kept as JSON"):
        objects([schedule], schedules="cronjob")


def test_an_image_is_needed() -> None:
    with pytest.raises(InvalidValue, match="expected the image to run; give --image"):
        read_values({}, "the test")


@pytest.mark.parametrize("content", ["- a\n- b", "image", "a: [", "!!python/object/apply:os.getcwd []"])
def test_files_that_hold_no_values_are_refused(content: str) -> None:
    with pytest.raises(InvalidValue, match=r"values\.yaml(:\d+:\d+)?: expected"):
        read_file(content, "values.yaml")
    assert read_file("# nothing\n", "values.yaml") == {}


# ---- metrics -------------------------------------------------------------------------------------------------------


def test_pods_show_metrics_where_asked_and_where_an_autoscaler_lives_by_them() -> None:
    for chosen, port in (
        ({"autoscale": "hpa"}, 9464),
        ({"metrics": 9100}, 9100),
        ({"autoscale": "hpa", "metrics": 1}, 1),
    ):
        for component in ("worker", "services"):
            template = deployment(component, **chosen)["template"]
            (found,) = template["spec"]["containers"]
            assert found["args"][-2:] == ["--metrics", f"0.0.0.0:{port}"]
            assert found["ports"] == [{"name": "metrics", "containerPort": port}]
            assert template["metadata"]["annotations"]["prometheus.io/port"] == str(port)
    template = deployment("worker")["template"]
    assert "--metrics" not in template["spec"]["containers"][0]["args"]
    assert "annotations" not in template["metadata"]
    with pytest.raises(InvalidValue, match="metrics"):
        objects(metrics=70_000)
