"""Where a request comes from and by which way, as far as that can be believed."""

import ipaddress
import re
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from holdfast.server.settings import ServerSettings

_WITH_PORT = re.compile(r"\[(.+)\](?::\d+)?|([^:]+):\d+")  # which some proxies add


def is_from_proxy(connection: HTTPConnection, settings: ServerSettings) -> bool:
    """Whether a proxy asks whose word is believed."""
    return connection.client is not None and _is_within(connection.client.host, settings)


def address_of(connection: HTTPConnection, settings: ServerSettings) -> str:
    """Where a request comes from: what the farthest believed proxy says, or the other end of the connection."""
    if connection.client is None:
        return ""
    if not is_from_proxy(connection, settings):
        return connection.client.host
    said = ",".join(connection.headers.getlist("x-forwarded-for")).split(",")
    named = [part.strip() for part in said if part.strip()]
    # Each proxy adds whom it was asked by, so the last that is no proxy of ours is as far as anybody can be believed.
    for part in reversed(named):
        found = _WITH_PORT.fullmatch(part)
        address = part if found is None else found[1] or found[2]
        if not _is_address(address):
            break
        if not _is_within(address, settings):
            return address
    return connection.client.host


def is_secure(connection: HTTPConnection, settings: ServerSettings) -> bool:
    """Whether whoever asks came by https."""
    if settings.url is not None:
        return urlsplit(settings.url).scheme == "https"
    said = ",".join(connection.headers.getlist("x-forwarded-proto"))
    if said and is_from_proxy(connection, settings):
        return said.rpartition(",")[2].strip().lower() == "https"
    scheme: str = connection.scope["scheme"]
    return scheme == "https"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_within(address: str, settings: ServerSettings) -> bool:
    if not settings.networks:
        return False
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in settings.networks)
