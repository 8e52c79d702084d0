"""Signatures that the library of Standard Webhooks accepts, and the other way round."""

import base64
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from holdfast.errors import InvalidValue
from holdfast.webhooks.signature import SignatureRefused, new_secret, read_secret, signature, verify

steady = settings(deadline=None, derandomize=True)  # a busy machine is no failure

SECRET = "whsec_" + base64.b64encode(b"s" * 24).decode()
OTHER = "whsec_" + base64.b64encode(b"o" * 64).decode()
BODY = '{"id": 5, "name": "Zoë"}'.encode()


def signed(*secrets: str, timestamp: int | None = None, body: bytes = BODY) -> dict[str, str]:
    moment = int(time.time()) if timestamp is None else timestamp
    keys = [read_secret(secret) for secret in secrets]
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(moment),
        "webhook-signature": signature(keys, "msg_1", moment, body),
    }


def test_the_standard_library_accepts_ours() -> None:
    assert Webhook(SECRET).verify(BODY, signed(SECRET)) == {"id": 5, "name": "Zoë"}


def test_we_accept_those_of_the_standard_library() -> None:
    now = datetime.now(UTC)
    made = Webhook(SECRET).sign("msg_1", now, BODY.decode())
    headers = {"Webhook-Id": "msg_1", "Webhook-Timestamp": str(int(now.timestamp())), "Webhook-Signature": made}
    verify(headers, BODY, [SECRET])


@steady
@given(st.binary(min_size=24, max_size=64), st.text(st.characters(codec="utf-8"), max_size=200))
def test_both_make_the_same_signature(key: bytes, body: str) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    ours = signature([key], "msg_1", int(moment.timestamp()), body.encode())
    assert ours == Webhook(key).sign("msg_1", moment, body)


def test_during_a_rotation_both_secrets_fit() -> None:
    headers = signed(SECRET, OTHER)
    assert headers["webhook-signature"].count("v1,") == 2
    for secret in (SECRET, OTHER):
        Webhook(secret).verify(BODY, headers)
        verify(headers, BODY, [secret])
    verify(signed(SECRET), BODY, [OTHER, SECRET])
    with pytest.raises(SignatureRefused):
        verify(headers, BODY, [new_secret()])


@pytest.mark.guards("signature")
@pytest.mark.parametrize("place", range(len(BODY)))
def test_a_body_changed_by_one_bit_is_refused(place: int) -> None:
    changed = bytearray(BODY)
    changed[place] ^= 1
    headers = signed(SECRET)
    with pytest.raises(SignatureRefused, match=r"^webhook-signature: expected one made with a secret of ours"):
        verify(headers, bytes(changed), [SECRET])


def test_the_standard_library_refuses_a_changed_body_too() -> None:
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY + b" ", signed(SECRET))


@pytest.mark.parametrize(
    "name, value",
    [("webhook-id", "msg_2"), ("webhook-timestamp", "1000001"), ("webhook-signature", "v1,AAAA v2,x v1a,y")],
)
def test_a_changed_header_is_refused(name: str, value: str) -> None:
    headers = signed(SECRET, timestamp=1_000_000) | {name: value}
    with pytest.raises(SignatureRefused, match=r"^webhook-signature: "):
        verify(headers, BODY, [SECRET], now=1_000_000)


@pytest.mark.parametrize("now", [1_000_000, 999_700, 1_000_300, 1_000_299.9])
def test_a_few_minutes_do_not_matter(now: float) -> None:
    verify(signed(SECRET, timestamp=1_000_000), BODY, [SECRET], now=now)


@pytest.mark.guards("signature-age")
@pytest.mark.parametrize("now, reason", [(1_000_301, "301 s ago; it may be a replay"), (999_699, "301 s ahead; check")])
def test_another_time_is_refused(now: float, reason: str) -> None:
    with pytest.raises(SignatureRefused, match=rf"^webhook-timestamp: expected at most 300 s from now, got {reason}"):
        verify(signed(SECRET, timestamp=1_000_000), BODY, [SECRET], now=now)


def test_the_tolerance_can_be_chosen_and_the_clock_is_the_default() -> None:
    with pytest.raises(SignatureRefused):
        verify(signed(SECRET, timestamp=1_000_000), BODY, [SECRET], now=1_000_011, tolerance_s=10)
    with pytest.raises(SignatureRefused, match="replay"):
        verify(signed(SECRET, timestamp=1_000_000), BODY, [SECRET])


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "١٢", "nan", "9" * 5_000, "1 "])
def test_a_timestamp_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(SignatureRefused, match=r"^webhook-timestamp: expected seconds since 1970"):
        verify(signed(SECRET) | {"webhook-timestamp": value}, BODY, [SECRET])


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_refused(name: str) -> None:
    headers = signed(SECRET)
    del headers[name]
    with pytest.raises(SignatureRefused, match=rf"^{name}: expected this header, got none"):
        verify(headers, BODY, [SECRET])


@steady
@given(st.text(alphabet=st.characters(exclude_categories=())), st.text(alphabet=st.characters(exclude_categories=())))
def test_any_other_header_is_refused_and_nothing_else_is_raised(message_id: str, given_signature: str) -> None:
    headers = {"webhook-id": message_id, "webhook-timestamp": "1", "webhook-signature": given_signature}
    with pytest.raises(SignatureRefused):
        verify(headers, BODY, [SECRET], now=1)


def test_without_a_secret_nothing_is_signed_and_nothing_fits() -> None:
    with pytest.raises(InvalidValue, match=r"^webhook secrets: expected at least one"):
        signature([], "msg_1", 1, b"")
    with pytest.raises(SignatureRefused):
        verify(signed(SECRET), BODY, [])


@pytest.mark.guards("signature-id")
@pytest.mark.parametrize("message_id", ["", "a.b"])
def test_an_id_that_would_make_a_signature_ambiguous_is_refused(message_id: str) -> None:
    with pytest.raises(InvalidValue, match=r"^webhook id: expected text without"):
        signature([b"k" * 24], message_id, 1, b"")


def test_new_secrets_are_long_and_differ() -> None:
    one, other = new_secret(), new_secret()
    assert one != other
    assert len(read_secret(one)) == 32


@pytest.mark.parametrize("length", [24, 25, 26, 64])
def test_secrets_are_read_with_and_without_padding(length: int) -> None:
    key = bytes(range(length))
    text = "whsec_" + base64.b64encode(key).decode()
    assert read_secret(text) == read_secret(text.rstrip("=")) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        "hidden",
        base64.b64encode(b"hidden" * 6).decode(),
        "whsec_" + base64.b64encode(b"hidden").decode(),
        "whsec_" + base64.b64encode(b"h" * 23).decode(),
        "whsec_" + base64.b64encode(b"h" * 65).decode(),
        "whsec_hidden!" + "A" * 40,
        "whsec_hidden\n" + "A" * 40,
        "whsec_hiddené" + "A" * 40,
        "whsec_" + "A" * 41,
        "WHSEC_" + "A" * 40,
        None,
        b"whsec_" + b"A" * 40,
    ],
)
def test_other_secrets_are_refused_without_showing_them(text: Any) -> None:
    with pytest.raises(
        InvalidValue, match=r"^webhook secret: expected whsec_ and the base64 of 24 to 64 bytes"
    ) as raised:
        read_secret(text)
    assert "hidden" not in str(raised.value)
    assert "aGlk" not in str(raised.value)
