"""`tokens create|list|revoke`: made once, seen by their ends, gone at once."""

import json

from holdfast.client import secrets
from holdfast.stores.access import AuditFilter
from tests.cli.conftest import Shop


def test_made_listed_and_revoked(shop: Shop) -> None:
    assert shop("tokens", "list").stderr.startswith("there is no token")
    made = shop("tokens", "create", "--name", "deploy", "--role", "operator", "--queue", "High", "--expires-in", "90d")
    secret = made.stdout.strip()
    assert (made.exit_code, secret[:3], len(secret)) == (0, "hf_", 46)
    assert "not shown again" in made.stderr
    other = json.loads(shop.ok("tokens", "create", "--name", "me", "--role", "admin", "--actor", "ada", "--json"))
    assert other["secret"].endswith(other["hint"])
    rows = [line.split("\t") for line in shop.ok("tokens", "list").splitlines()]
    assert rows[0][:5] == ["ID", "NAME", "ROLE", "QUEUES", "ENDS IN"]
    assert [row[1:4] for row in rows[1:]] == [["me", "admin", "all"], ["deploy", "operator", "high"]]
    assert rows[2][4] == secret[-4:]
    (_, listed) = json.loads(shop.ok("tokens", "list", "--json"))["tokens"]
    assert (listed["queues"], listed["used_at"], listed["revoked_at"]) == (["high"], None, None)
    assert shop.ok("tokens", "revoke", listed["id"]).startswith(f"token {listed['id']} of deploy")
    found = shop.on_store(lambda store: store.find_token(secrets.digest_of(secret)))
    assert found is None
    assert shop.on_store(lambda store: store.find_token(secrets.digest_of(other["secret"]))) is not None
    deeds = shop.on_store(lambda store: store.list_audit(AuditFilter(), limit=9))
    assert [(deed.action, deed.target) for deed in deeds] == [
        ("revoke_token", f"tokens/{listed['id']}"),
        ("create_token", f"tokens/{other['id']}"),
        ("create_token", f"tokens/{listed['id']}"),
    ]
    assert deeds[1].actor == "ada"
    assert secret not in str(deeds)


def test_exit_codes(sqlite_shop: Shop) -> None:
    sqlite_shop.ok("migrate", "up")
    for args, code in (
        (["revoke", "4711"], 3),
        (["revoke", "x"], 2),
        (["create", "--name", "a", "--role", "root"], 2),
        (["create", "--name", "", "--role", "viewer"], 2),
        (["create", "--name", "a", "--role", "viewer", "--expires-in", "soon"], 2),
        (["create", "--name", "a", "--role", "viewer", "--expires-in", "0s"], 2),
        (["create", "--name", "a", "--role", "viewer", "--queue", "a b"], 2),
        (["create", "--role", "viewer"], 2),
    ):
        result = sqlite_shop("tokens", *args, "--json")
        assert (result.exit_code, result.stdout) == (code, ""), args
        assert json.loads(result.stderr)["error"]["exit_code"] == code
    assert sqlite_shop.ok("tokens", "list", "--json").strip().endswith("}")
