"""Which IP addresses belong to the public internet, by a table of our own.

`ipaddress` has an opinion too, but it changed between releases of Python; a guard must not change with them.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

_NOT_PUBLIC_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by the customers of a provider (CGNAT)
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # the host of an Azure machine, reachable only from inside
        "169.254.0.0/16",  # link-local, with the metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved
        "255.255.255.255/32",  # broadcast
    )
)
_NOT_PUBLIC_V6 = tuple(
    IPv6Network(text)
    for text in (
        "::/96",  # unspecified, loopback and the old form that holds an IPv4 address
        "::ffff:0:0:0/96",  # IPv4 translated
        "64:ff9b::/96",  # IPv4 behind NAT64
        "64:ff9b:1::/48",  # the same, local
        "100::/64",  # discarded
        "100:0:0:1::/64",  # dummy prefix
        "2001::/23",  # protocol assignments, with Teredo (2001::/32), which holds an IPv4 address
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which holds an IPv4 address
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fc00::/7",  # private
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local
        "ff00::/8",  # multicast
    )
)
# Whatever the table forgets: all public IPv6 is in here.
_UNICAST_V6 = IPv6Network("2000::/3")


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet; of an IPv4 address inside IPv6, whether that one is."""
    address = unmapped(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    return address in _UNICAST_V6 and not any(address in network for network in _NOT_PUBLIC_V6)


def read_address(text: str) -> Address | None:
    """Read an address in its plain spelling, without a zone; None when the text is something else."""
    if "%" in text:
        return None
    try:
        return unmapped(ip_address(text))
    except ValueError:
        return None


def unmapped(address: Address) -> Address:
    """The IPv4 address that `::ffff:1.2.3.4` stands for; any other address as it is."""
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address
