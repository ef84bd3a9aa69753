"""Tests of what limits count as one host."""

import pytest

from elmo.serve.client_network import client_network, plain_address


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("unknown", "unknown"),
        ("10.0.0.1:80", "10.0.0.1:80"),
        ("", ""),
    ],
)
def test_addresses_of_an_ipv6_network_are_one_host(address, network):
    assert client_network(address) == network


@pytest.mark.parametrize(
    ("address", "plain"),
    [("::ffff:10.0.0.1", "10.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("::1", "::1"), ("_:", "_:")],
)
def test_ipv4_address_within_an_ipv6_address_is_plain(address, plain):
    assert plain_address(address) == plain


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("10.0.0.1:5678", "10.0.0.1"),
        ("[2001:db8::1]:5678", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[::ffff:10.0.0.1]:80", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("unknown:80", "unknown:80"),
        ("[]:80", "[]:80"),
    ],
)
def test_port_is_removed_from_an_address(address, plain):
    assert plain_address(address) == plain
