"""Where a webhook may go: what is refused when it is registered, and what its addresses must be."""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidValue
from holdfast.webhooks.address import Allowed, Refused, Target, check_url, is_public, read_allowed, resolve
from tests.support.hostile_receiver import LOCAL_URLS

steady = settings(deadline=None, derandomize=True)  # a busy machine is no failure

NOWHERE = Allowed()


async def never(host: str, port: int) -> Iterable[str]:
    message = f"{host} was looked up"
    raise AssertionError(message)


@pytest.mark.guards("webhook-host", "webhook-public-address", "webhook-odd-address", "webhook-local-name")
@pytest.mark.parametrize("url", LOCAL_URLS)
def test_a_local_address_is_refused_however_it_is_spelled(url: str) -> None:
    with pytest.raises(Refused, match=r"^webhook URL: expected ") as raised:
        check_url(url.format(port=18_080), NOWHERE)
    assert str(raised.value).isascii()
    assert str(raised.value).isprintable()


@pytest.mark.guards("webhook-user")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "//example.org/",
        "http:example.org",
        "http:/example.org",
        "http://",
        "http:///path",
        "https://?x",
        "http://:80/",
        "http://example.org:/",
        "http://example.org:0/",
        "http://example.org:65536/",
        "http://example.org:8080:80/",
        "http://example.org:８０/",  # noqa: RUF001 - full-width digits are the point
        "http://example.org:-1/",
        "ftp://example.org/",
        "javascript:alert(1)",
        "data:text/plain,x",
        "ws://example.org/",
        "http+unix://example.org/",
        "http://user@example.org/",
        "http://user:hidden@example.org/",
        "http://@example.org/",
        "http://example.org/a b",
        "http://example.org/a\tb",
        "http://example.org/a\nb",
        "http://example.org/\x00",
        "http://example.org/\x7f",
        "http://example.org/\u2028",
        "http://example.org/\u202e",
        "http://example.org/\ud800",
        "http://example.org/\\a",
        "http://example.org\\.evil.org/",
        " http://example.org/",
        "http://example.org/ ",
        "http://example.org/#part",
        "http://example.org#@127.0.0.1/",
        "http://example..org/",
        "http://example.org../",
        "http://.example.org/",
        "http://-a.example.org/",
        "http://exa%6dple.org/",
        "http://example.org%00/",
        "http://exa$mple.org/",
        "http://faß.example.org/",
        "http://" + "a" * 64 + ".org/",
        "http://" + "a." * 127 + "org/",
        "http://" + "ü" * 64 + ".org/",
        "http://1.2.3/",
        "http://1.2.3.4.5/",
        "http://1.2.3.256/",
        "http://1.2.3.08/",
        "http://a.b.1/",
        "http://example.0x7f/",
        "http://0x/",
        "http://[1.2.3.4]/",
        "http://[2606:4700::1/",
        "http://2606:4700::1/",
        "http://[2606:4700::1]x/",
        "http://[2606:4700::1%25eth0]/",
        "http://[]/",
        "http://[v1.x]/",
        "http://example.org/" + "a" * 2_000,
        "http://example.org/" + "ü" * 400,
        None,
        5,
        b"http://example.org/",
    ],
)
def test_what_is_no_plain_url_is_refused(url: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^webhook URL: expected .*, got ") as raised:
        check_url(url, NOWHERE)
    assert "hidden" not in str(raised.value)
    assert len(str(raised.value)) < 250


@pytest.mark.guards("webhook-port")
@pytest.mark.parametrize("port", [1, 21, 22, 23, 25, 53, 110, 143, 445, 587, 993, 1023, 2375, 3306, 5432, 6379, 11211])
def test_ports_of_other_services_are_refused(port: int) -> None:
    with pytest.raises(Refused, match=rf"^webhook URL: expected port 80, 443 or .*, got {port}; allow"):
        check_url(f"http://example.org:{port}/", NOWHERE)


@pytest.mark.parametrize("port", [80, 443, 1024, 3000, 8000, 8080, 8443, 65_535])
def test_ports_of_web_servers_are_taken(port: int) -> None:
    assert check_url(f"http://example.org:{port}/", NOWHERE).port == port


@pytest.mark.parametrize(
    "url, normalised",
    [
        ("http://example.org", "http://example.org/"),
        ("HTTPS://Example.ORG.:443/A?b=c", "https://example.org/A?b=c"),
        ("http://example.org:443/", "http://example.org:443/"),
        ("http://example.org?x=/../y", "http://example.org/?x=/../y"),
        ("http://example.org/ü?ä=%2F%", "http://example.org/%C3%BC?%C3%A4=%2F%"),
        ("http://bücher.example.org/", "http://xn--bcher-kva.example.org/"),
        ("http://ｅｘample。org/", "http://example.org/"),  # noqa: RUF001 - full-width letters are the point
        ("http://8.8.8.8:8080/", "http://8.8.8.8:8080/"),
        ("http://[2606:4700:0:0::1111]/", "http://[2606:4700::1111]/"),
        ("http://[2606:4700::1111]:8443/a", "http://[2606:4700::1111]:8443/a"),
        ("http://a_b.example.org/", "http://a_b.example.org/"),
    ],
)
def test_a_public_url_is_normalised(url: str, normalised: str) -> None:
    target = check_url(url, NOWHERE)
    assert target.url == normalised
    assert check_url(normalised, NOWHERE) == target


def test_the_parts_of_a_target() -> None:
    target = check_url("https://[2606:4700::1111]/in/x?token=hidden", NOWHERE)
    assert target == Target("https", "2606:4700::1111", 443, "/in/x?token=hidden")
    assert target.endpoint == "https://[2606:4700::1111]:443/in/x"
    assert target.authority == "[2606:4700::1111]"
    assert "hidden" not in repr(target)


def test_an_odd_spelling_is_refused_and_explained_even_where_its_address_is_allowed() -> None:
    allowed = read_allowed(["127.0.0.0/8"])
    for odd in ("0x7f.1", "2130706433", "0177.0.0.1", "127.1", "0x7f000001"):
        with pytest.raises(Refused, match=rf"got '{odd}', which is 127\.0\.0\.1$"):
            check_url(f"http://{odd}/", allowed)


@steady
@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=40))
def test_any_host_is_plain_or_refused(host: str) -> None:
    try:
        target = check_url(f"http://{host}/", NOWHERE)
    except Refused as refused:
        assert str(refused).isascii()  # noqa: PT017 - either outcome is right
    else:
        assert target.url.isascii()
        assert check_url(target.url, NOWHERE) == target


@pytest.mark.parametrize(
    "text",
    [
        *("0.0.0.1", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1"),
        *(
            "127.255.255.255",
            "169.254.0.1",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.255.255",
        ),
        *("198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.0", "239.255.255.255", "240.0.0.1"),
        *("255.255.255.255", "::", "::1", "::7f00:1", "::8.8.8.8", "::ffff:10.0.0.1", "::ffff:0:8.8.8.8"),
        *("64:ff9b::8.8.8.8", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:1::", "2001:10::1", "2001:db8::", "2002::"),
        *(
            "2002:808:808::",
            "3fff::1",
            "5f00::1",
            "fc00::",
            "fdff::1",
            "fe80::",
            "febf::1",
            "fec0::",
            "ff02::1",
            "4000::",
        ),
    ],
)
def test_these_addresses_are_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
        *(
            "128.0.0.1",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.167.255.255",
        ),
        *("198.17.255.255", "198.20.0.0", "223.255.255.255", "::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450::1"),
    ],
)
def test_these_addresses_are_public(text: str) -> None:
    assert is_public(ip_address(text))


@steady
@given(st.ip_addresses(v=4) | st.ip_addresses(v=6, network="2000::/3"))
def test_what_python_calls_private_is_never_public(address: Any) -> None:
    if address.is_private or address.is_loopback or address.is_link_local or address.is_multicast:
        assert not is_public(address)


@pytest.mark.parametrize(
    "entry, url",
    [
        ("127.0.0.1", "http://127.0.0.1:8000/"),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/"),
        ("127.0.0.0/8", "http://127.9.9.9/"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000/"),
        ("127.0.0.1:22", "http://127.0.0.1:22/"),
        ("10.0.0.0/8:25", "http://10.1.2.3:25/"),
        ("::1", "http://[::1]/"),
        ("[::1]", "http://[::1]/"),
        ("[::1]:8000", "http://[::1]:8000/"),
        ("fd00::/8", "http://[fd12::1]/"),
        ("localhost", "http://LOCALHOST./"),
        ("Receiver", "http://receiver/"),
        ("receiver:6379", "http://receiver:6379/"),
        ("*.internal", "http://a.b.internal/"),
        ("*.corp.example.org:8000", "http://x.corp.example.org:8000/"),
    ],
)
def test_the_allowlist_opens_what_it_names(entry: str, url: str) -> None:
    check_url(url, read_allowed([entry]))


@pytest.mark.parametrize(
    "entry, url",
    [
        ("127.0.0.1", "http://127.0.0.2/"),
        ("127.0.0.1", "http://[::1]/"),
        ("127.0.0.1", "http://localhost/"),
        ("127.0.0.1", "http://127.0.0.1:22/"),
        ("127.0.0.1:8000", "http://127.0.0.1:8001/"),
        ("example.org:22", "http://example.org:23/"),
        ("localhost", "http://a.localhost/"),
        ("*.internal", "http://internal/"),
        ("*.b.internal", "http://ab.internal/"),
        ("b.internal", "http://a.b.internal/"),
    ],
)
def test_the_allowlist_opens_nothing_else(entry: str, url: str) -> None:
    with pytest.raises(Refused):
        check_url(url, read_allowed([entry]))


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "*",
        "*.",
        "a b",
        "http://a",
        "a/b",
        "10.0.0.1/8",
        "1.2.3",
        "0x7f.1",
        "a:0",
        "a:65536",
        "a:b",
        "*.*.a",
        None,
        5,
    ],
)
def test_other_entries_are_refused(entry: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^allowed webhook address: expected a host name"):
        read_allowed([entry])


async def test_an_address_needs_no_lookup() -> None:
    assert await resolve(check_url("http://8.8.8.8/", NOWHERE), NOWHERE, never) == ["8.8.8.8"]
    with pytest.raises(Refused):
        await resolve(Target("http", "127.0.0.1", 80, "/"), NOWHERE, never)


async def test_every_address_is_returned_once() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        assert (host, port) == ("example.org", 8443)
        return ["2606:4700::1", "8.8.8.8", "8.8.8.8"]

    target = check_url("https://example.org:8443/", NOWHERE)
    assert await resolve(target, NOWHERE, lookup) == ["2606:4700::1", "8.8.8.8"]


@pytest.mark.parametrize("error", [OSError("no such name"), UnicodeError("label too long"), TimeoutError()])
async def test_a_resolver_that_fails_refuses(error: Exception) -> None:
    async def lookup(host: str, port: int) -> list[str]:
        raise error

    with pytest.raises(Refused, match=r"^webhook address: expected a host name that resolves, got 'e\.org'") as raised:
        await resolve(Target("http", "e.org", 80, "/?token=hidden"), NOWHERE, lookup)
    assert "hidden" not in str(raised.value)


@pytest.mark.guards("webhook-addresses")
@pytest.mark.parametrize(
    "entries, is_reached",
    [
        ([], False),
        (["e.org"], True),
        (["*.org"], True),
        (["e.org:81"], False),
        (["10.0.0.0/8"], True),
        (["10.0.0.0/8:81"], False),
        (["10.0.0.6"], False),
    ],
)
async def test_only_the_allowlist_leads_to_a_private_address(entries: list[str], is_reached: bool) -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "10.0.0.5"]

    target, allowed = check_url("http://e.org/", NOWHERE), read_allowed(entries)
    if is_reached:
        assert await resolve(target, allowed, lookup) == ["8.8.8.8", "10.0.0.5"]
    else:
        with pytest.raises(Refused) as raised:
            await resolve(target, allowed, lookup)
        assert "10.0.0.5" not in str(raised.value)


@pytest.mark.parametrize("answer", ["fe80::1%eth0", "not an address", "", "127.1"])
async def test_an_answer_that_is_no_plain_address_is_refused_even_for_a_trusted_name(answer: str) -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return [answer]

    with pytest.raises(Refused):
        await resolve(Target("http", "e.org", 80, "/"), read_allowed(["e.org"]), lookup)


async def test_the_system_is_asked_by_default() -> None:
    addresses = await resolve(Target("http", "localhost", 80, "/"), read_allowed(["localhost"]))
    assert set(addresses) <= {"127.0.0.1", "::1"}
    assert addresses
