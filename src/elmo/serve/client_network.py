"""What the limits of the server count as one host."""

import re
from ipaddress import IPv6Address

# Some proxies write the port of the client too; an IPv6 address is then in brackets.
_WITH_PORT = re.compile(r"\[([^]]+)\](?::\d+)?|([\d.]+):\d+")

# Bits of an IPv6 address that belong to the network of a client, which has all addresses in it.
NETWORK_BITS = 64


def client_network(address: str) -> str:
    """Return an IPv4 address itself, and the network of an IPv6 address.

    Text that is not an address, such as that of a proxy for an unknown one, is returned as it is.
    """
    parsed = _ipv6_address(address)
    # Addresses that are only valid on a link have all the same network.
    if parsed is None or parsed.is_link_local or parsed.is_loopback:
        return address
    shift = IPv6Address("::").max_prefixlen - NETWORK_BITS
    return f"{IPv6Address(int(parsed) >> shift << shift)}/{NETWORK_BITS}"


def plain_address(address: str) -> str:
    """Return an address without its port; an IPv4 address if it is written as an IPv6 address.

    A socket that listens on `::` reports IPv4 clients in this way, and so do proxies with one.
    """
    with_port = _WITH_PORT.fullmatch(address)
    if with_port is not None:
        address = with_port[1] or with_port[2]
    parsed = _ipv6_address(address)
    mapped = parsed.ipv4_mapped if parsed is not None else None
    return address if mapped is None else str(mapped)


def _ipv6_address(address: str) -> IPv6Address | None:
    if ":" not in address:
        return None
    try:
        return IPv6Address(address)
    except ValueError:
        return None
