"""Who is let in, by which way, and who has to wait."""

import asyncio
from typing import Any

import httpx2
import pytest
from starlette.requests import Request

from holdfast import Holdfast
from holdfast.client.secrets import new_secret
from holdfast.errors import ConfigError, InvalidValue
from holdfast.server import latch
from holdfast.server.failing import FORGIVEN_S, MOST_FAILURES, Failing
from holdfast.server.principal import Principal
from holdfast.server.problems import Problem
from holdfast.server.roles import Role
from holdfast.server.settings import Authorized, ServerSettings
from tests.support.web import PAGE, bearing, made_token, visit

QUEUES = "/api/v1/queues"
PROXY = "10.1.2.3"
PROXIED = ServerSettings(proxies=("10.0.0.0/8",), user_header="x-user", role_header="x-role", default_role=None)
NAMES = ServerSettings(
    proxies=(PROXY,),
    user_header="x-user",
    users={"ada@example.org": "admin", "*@example.org": "operator"},
    default_role=None,
)


async def test_a_token_holds_until_it_is_revoked(memory_app: Holdfast) -> None:
    secret = await made_token(memory_app, "viewer")
    async with visit(memory_app) as web:
        assert (await web.get(QUEUES, headers=bearing(secret))).status_code == 200
        assert (await web.get(QUEUES, headers={"authorization": f"bearer  {secret} "})).status_code == 200
        (token,) = await memory_app.store.list_tokens("token")
        await memory_app.store.revoke_token(token.id, actor="ada")
        answer = await web.get(QUEUES, headers=bearing(secret))
        assert (answer.status_code, answer.json()["type"]) == (401, "urn:holdfast:token")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.guards("token-kind")
@pytest.mark.parametrize("kind", ["session", "link"])
async def test_no_other_secret_passes_for_a_token(memory_app: Holdfast, kind: str) -> None:
    secret = await made_token(memory_app, kind="session" if kind == "session" else "link")
    async with visit(memory_app) as web:
        assert (await web.get(QUEUES, headers=bearing(secret))).status_code == 401


@pytest.mark.guards("session-kind")
async def test_a_token_is_no_login(memory_app: Holdfast) -> None:
    secret = await made_token(memory_app)
    async with visit(memory_app) as web:
        web.cookies.set("holdfast_session", secret)
        assert (await web.get(QUEUES)).status_code == 401


@pytest.mark.guards("one-authorization")
async def test_odd_headers_are_nobody(memory_app: Holdfast) -> None:
    async with visit(memory_app) as web:
        for given in ("Bearer ", "Bearer \xff", "b\xe4rer x", "Basic YTpi", "x"):
            answer = await web.get(QUEUES, headers=[(b"authorization", given.encode("latin-1"))])
            assert answer.status_code == 401, given
        twice = [("authorization", f"Bearer {await made_token(memory_app)}"), ("authorization", "Bearer other")]
        parted = [("authorization", "Bearer "), ("authorization", await made_token(memory_app))]
        empty = [("authorization", ""), twice[0]]
        for headers in (twice, twice[::-1], [twice[0]] * 2, parted, empty, empty[::-1]):
            assert (await web.get(QUEUES, headers=headers)).status_code == 401, "whose is it?"
        assert (await web.get(QUEUES, headers=twice[:1])).status_code == 200


# ---- being on this machine -----------------------------------------------------------------------------------------


@pytest.mark.guards("local-without-forwarded", "local-without-proxy", "local-address")
async def test_an_open_server_lets_in_this_machine_alone(memory_app: Holdfast) -> None:
    async with visit(memory_app, is_open=True) as web:
        assert (await web.get(QUEUES)).status_code == 200
        for header in ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-server", "x-real-ip", "via"):
            assert (await web.get(QUEUES, headers={header: "127.0.0.1"})).status_code == 401
        transport = web._transport
        assert isinstance(transport, httpx2.ASGITransport)
        application: Any = transport.app

        async def as_nginx(scope: Any, receive: Any, send: Any) -> None:
            await application({**scope, "http_version": "1.0"}, receive, send)

        transport.app = as_nginx
        assert (await web.get(QUEUES)).status_code == 401, "a proxy that does not say that it is one"
    async with visit(memory_app, is_open=True, client="10.0.0.9") as web:
        assert (await web.get(QUEUES)).status_code == 401
    async with visit(memory_app) as web:
        assert (await web.get(QUEUES)).status_code == 401


@pytest.mark.guards("local-until-token")
async def test_an_open_server_closes_with_the_first_token_and_stays_closed(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(latch, "LOOK_S", 0.0)
    async with visit(memory_app, is_open=True) as web:
        assert (await web.get(QUEUES)).status_code == 200
        made = (await web.post("/api/v1/tokens", json={"name": "me", "role": "admin"})).json()
        assert [(await web.get(QUEUES)).status_code for _ in range(3)] == [401] * 3
        assert (await web.get(QUEUES, headers=bearing(made["secret"]))).status_code == 200
        assert [one.message for one in caplog.records if "made a token" in one.message] == [
            "somebody has made a token, so nobody is let in without one any more"
        ]
        (token,) = await memory_app.store.list_tokens("token")
        await memory_app.store.revoke_token(token.id, actor="ada")
        assert (await web.get(QUEUES)).status_code == 401, "nobody meant to open it"


async def test_an_open_server_looks_for_tokens_now_and_then(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    has_token = memory_app.store.has_token

    async def counted() -> bool:
        nonlocal looks
        looks += 1
        return await has_token()

    monkeypatch.setattr(memory_app.store, "has_token", counted)
    monkeypatch.setattr(latch, "LOOK_S", 3_600.0)
    async with visit(memory_app, is_open=True) as web:
        answers = await asyncio.gather(*(web.get(QUEUES) for _ in range(10)))
        assert {answer.status_code for answer in answers} == {200}
        assert looks == 1
        assert (await web.get(QUEUES, headers=bearing(await made_token(memory_app)))).status_code == 200
        assert looks == 1


# ---- somebody else's word ------------------------------------------------------------------------------------------


BELIEVED: list[tuple[str, dict[str, str], int]] = [
    (PROXY, {"x-user": "ada", "x-role": "viewer"}, 200),
    (PROXY, {"x-user": "ada", "x-role": " Viewer "}, 200),
    (PROXY, {"x-user": "ada", "x-role": "root"}, 403),
    (PROXY, {"x-user": "ada", "x-role": "viewer,admin"}, 403),
    (PROXY, {"x-user": "ada"}, 403),
    (PROXY, {"x-role": "admin"}, 401),
    (PROXY, {"x-user": "", "x-role": "admin"}, 403),
    ("11.1.2.3", {"x-user": "ada", "x-role": "viewer"}, 401),
    ("127.0.0.1", {"x-user": "ada", "x-role": "viewer"}, 401),
]


@pytest.mark.guards("proxy-address")
async def test_only_a_named_proxy_is_believed(memory_app: Holdfast) -> None:
    async with visit(memory_app, PROXIED) as web:
        for client, headers, status in BELIEVED:
            transport = web._transport
            assert isinstance(transport, httpx2.ASGITransport)
            transport.client = (client, 4711)
            assert (await web.get(QUEUES, headers=headers)).status_code == status, (client, headers)


@pytest.mark.guards("proxy-name")
async def test_a_second_name_is_what_somebody_sent(memory_app: Holdfast) -> None:
    async with visit(memory_app, PROXIED, client=PROXY) as web:
        twice = [("x-user", "admin"), ("x-user", "ada"), ("x-role", "viewer")]
        assert (await web.get(QUEUES, headers=twice)).status_code == 403


@pytest.mark.parametrize(
    "name, role",
    [
        ("ada@example.org", Role.ADMIN),
        ("bob@example.org", Role.OPERATOR),
        ("ada@example.org.evil.com", None),
        ("xada@example.org", Role.OPERATOR),
        ("ada@example.org\n", None),
        ("ada@example.org\nx@example.org", None),
        ("evil@example.com\n@example.org", None),
        ("ada@exampleXorg", None),
        ("ADA@EXAMPLE.ORG", None),
        ("", None),
    ],
)
def test_names_fit_as_a_whole(name: str, role: Role | None) -> None:
    assert NAMES.role_of(name) is role


async def test_those_whom_nobody_named_stay_out(memory_app: Holdfast) -> None:
    async with visit(memory_app, NAMES, client=PROXY) as web:
        assert (await web.get(QUEUES, headers={"x-user": "ada@example.org"})).status_code == 200
        answer = await web.get(QUEUES, headers={"x-user": "ada@example.org.evil.com"})
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:proxy")


def test_a_header_that_anybody_could_send_is_refused() -> None:
    with pytest.raises(ConfigError, match="name the proxies"):
        ServerSettings(user_header="x-user")


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "jobs.example.org"},
        {"url": "ftp://x"},
        {"url": "https://"},
        {"instances": {"staging": "jobs.staging.example"}},
        {"instances": {"staging": "/staging"}},
        {"instances": {"staging": "https://"}},
        {"instances": {"staging": "javascript:alert(1)"}},
        {"instances": {"staging": "https://ada:secret@jobs.staging.example"}},
        {"instances": {"staging": "https://jobs.staging.example/?a=1"}},
        {"instances": {"staging": "https://[::1"}},
        {"instances": {"": "https://jobs.staging.example"}},
        {"hosts": ("a:80",)},
        {"hosts": ("https://a",)},
        {"proxies": ("here",)},
        {"port": 70_000},
        {"max_body": 1},
        {"session": 0},
        {"users": {"ada": "root"}},
        {"default_role": "root"},
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises((ConfigError, InvalidValue)):
        ServerSettings(**wrong)  # type: ignore[arg-type]  # each is wrong in its own way


# ---- a hook --------------------------------------------------------------------------------------------------------


async def test_a_hook_says_who_asks(memory_app: Holdfast) -> None:
    async def authorize(request: Request) -> Authorized:
        known: dict[str, Authorized] = {"ada": Principal("ada", Role.ADMIN), "role": Role.VIEWER}
        return known.get(request.headers.get("x-name", ""))

    async with visit(memory_app, ServerSettings(authorize=authorize)) as web:
        assert (await web.get(QUEUES, headers={"x-name": "ada"})).status_code == 200
        assert (await web.get(QUEUES, headers={"x-name": "role"})).status_code == 200
        assert (await web.post(f"{QUEUES}/high/pause", headers={"x-name": "role"})).status_code == 403
        assert (await web.get(QUEUES)).status_code == 401
        web.cookies.set("holdfast_session", await made_token(memory_app, kind="session"))
        assert (await web.get(QUEUES)).status_code == 200, "who is not known to the hook may have logged in"


@pytest.mark.guards("hook-answer")
async def test_a_hook_that_errs_lets_nobody_in(memory_app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    def odd(request: Request) -> Authorized:
        del request
        return "admin"  # type: ignore[return-value]  # that is the point

    def broken(request: Request) -> Authorized:
        del request
        message = "ldap://secret-host is away"
        raise RuntimeError(message)

    for authorize in (odd, broken):
        async with visit(memory_app, ServerSettings(authorize=authorize), is_open=True) as web:
            for headers in ({}, PAGE):
                answer = await web.get("/queues" if headers else QUEUES, headers=headers)
                assert answer.status_code == 403
                assert "ldap" not in answer.text
    assert "ldap://secret-host is away" in caplog.text


# ---- those who guess -----------------------------------------------------------------------------------------------


@pytest.mark.guards("guess-lockout")
async def test_guessing_is_slowed_down_and_nobody_else_is(memory_app: Holdfast) -> None:
    good, late = await made_token(memory_app), await made_token(memory_app)
    settings = ServerSettings(proxies=("127.0.0.1",))
    async with visit(memory_app, settings) as web:

        async def ask(secret: str, address: str) -> tuple[int, str]:
            answer = await web.get(QUEUES, headers=bearing(secret) | {"x-forwarded-for": f"9.9.9.9, {address}"})
            return answer.status_code, answer.headers.get("retry-after", "")

        assert await ask(good, "1.1.1.1") == (200, "")
        asked = await asyncio.gather(*(ask(new_secret(), "1.1.1.1") for _ in range(60)))
        assert [status for status, _ in asked].count(401) <= 20
        assert {status for status, _ in asked} == {401, 429}
        assert all(int(wait) >= 1 for status, wait in asked if status == 429)
        assert await ask(good, "1.1.1.1") == (200, ""), "what was right goes on, even from there"
        for address in ("1.1.1.1", "1.1.1.1:4711", "1.1.1.1:4712", "1.1.1.1, 127.0.0.1"):
            assert (await ask(late, address))[0] == 429, address
        assert await ask(late, "2.2.2.2") == (200, ""), "nobody else has to wait"
        many = await asyncio.gather(*(ask(late, "3.3.3.3") for _ in range(50)))
        assert {status for status, _ in many} == {200}


async def test_a_store_that_is_away_is_no_wrong_token(memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.errors import StoreUnavailable

    secret = await made_token(memory_app)

    async def away(*_: object, **__: object) -> None:
        message = "host db.internal refused"
        raise StoreUnavailable(message)

    async with visit(memory_app) as web:
        with monkeypatch.context() as patch:
            patch.setattr(type(memory_app.store), "find_token", away)
            for _ in range(30):
                answer = await web.get(QUEUES, headers=bearing(secret))
                assert answer.status_code == 503
                assert "db.internal" not in answer.text
        assert (await web.get(QUEUES, headers=bearing(secret))).status_code == 200


@pytest.mark.guards("guess-network")
def test_failures_are_forgiven_one_after_the_other() -> None:
    now = [0.0]
    failing = Failing(lambda: now[0])
    for _ in range(MOST_FAILURES):
        failing.begin("2001:db8::1")
    for address in ("2001:db8::1", "2001:db8::ffff:2"):
        with pytest.raises(Problem) as refused:
            failing.begin(address)
        assert refused.value.headers == {"retry-after": "6"}
    failing.begin("2001:db8:0:1::1")
    now[0] += FORGIVEN_S / MOST_FAILURES + 0.1
    failing.begin("2001:db8::1")
    with pytest.raises(Problem):
        failing.begin("2001:db8::1")
