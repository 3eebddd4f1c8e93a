"""Names in certificates, and names that people write."""

from __future__ import annotations

import pytest

from rpcrdma.rpc.host_identity import HostIdentity, HostName, host_identity, host_name, is_named
from support.cases import each_case


def identity(*dns_names: str, addresses: tuple[str, ...] = (), uris: tuple[str, ...] = ()) -> HostIdentity:
    return HostIdentity(
        dns_names=dns_names, addresses=addresses, uris=uris, subject="", issuer="", channel_binding=bytes(32)
    )


@each_case(
    ("text", "name"),
    [
        ("Server.Example.", HostName("DNS", "server.example")),
        (" localhost ", HostName("DNS", "localhost")),
        ("bücher.example", HostName("DNS", "xn--bcher-kva.example")),
        ("192.0.2.1", HostName("IP Address", "192.0.2.1")),
        ("2001:DB8:0:0:0:0:0:1", HostName("IP Address", "2001:db8::1")),
        ("fe80::1%eth0", HostName("IP Address", "fe80::1")),
        ("spiffe://example.org/Host", HostName("URI", "spiffe://example.org/Host")),
    ],
)
def test_a_name_has_one_form(text: str, name: HostName) -> None:
    assert host_name(text) == name


@each_case("text", ["", " ", ".", "a..b", ".example", "*.example.org", "*", "a*b.example", "x" * 64])
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a host; write"):
        host_name(text)


@pytest.mark.req("TLS-33", "TLS-35")
@each_case(
    ("presented", "wanted", "same"),
    [
        ("server.example", "server.example", True),
        ("SERVER.example.", "server.example", True),
        ("server.example", "server.example.org", False),
        ("server.example\0.evil.org", "server.example", False),
        ("*.example.org", "a.example.org", True),
        ("*.Example.org", "A.example.org", True),
        ("*.example.org", "example.org", False),
        ("*.example.org", "a.b.example.org", False),
        ("*.org", "example.org", False),
        ("*", "example", False),
        ("a*.example.org", "ab.example.org", False),
        ("*.*.example.org", "a.b.example.org", False),
        ("192.0.2.1", "192.0.2.1", False),
        ("*.0.2.1", "192.0.2.1", False),
        ("", "server.example", False),
    ],
)
def test_dns_names_in_certificates(presented: str, wanted: str, same: bool) -> None:
    assert is_named(identity("other.example", presented), [host_name(wanted)]) is same


@pytest.mark.req("TLS-33", "TLS-35")
def test_each_kind_of_name_is_compared_with_its_own_kind() -> None:
    peer = identity("a.example", addresses=("2001:db8::1",), uris=("urn:a",))
    for name in ("a.example", "2001:db8:0::1", "urn:a"):
        assert is_named(peer, [host_name("other.example"), host_name(name)])
    for name in ("b.example", "2001:db8::2", "urn:b", "URN:a"):
        assert not is_named(peer, [host_name(name)])
    assert not is_named(peer, [])


def test_a_certificate_as_the_standard_library_describes_it() -> None:
    described = {
        "subject": ((("countryName", "XX"),), (("commonName", "a.example"), ("serialNumber", "7"))),
        "issuer": ((("commonName", "authority"),),),
        "subjectAltName": (
            ("DNS", "a.example"),
            ("IP Address", "2001:DB8:0:0:0:0:0:1"),
            ("IP Address", "<invalid>"),
            ("email", "root@a.example"),
            ("URI", "urn:a"),
        ),
    }
    found = host_identity(described, b"binding")
    assert found.names == ("a.example", "2001:db8::1", "urn:a")
    assert found.subject == "countryName=XX, commonName=a.example, serialNumber=7"
    assert (found.issuer, found.channel_binding) == ("commonName=authority", b"binding")
    assert host_identity({}, b"").names == ()
    assert found.as_json() == {
        "names": ["a.example", "2001:db8::1", "urn:a"],
        "subject": found.subject,
        "issuer": found.issuer,
        "channel_binding": b"binding".hex(),
    }


def test_what_people_read_holds_no_control_characters() -> None:
    for name, told in (
        ("B\u00fccher\n\x1b[31m", "B\u00fccher\\x0a\\x1b[31m"),
        # Octets that are no UTF-8, and the surrogates around theirs.
        ("\udc7f\udc80\udcff\udd00", "\\udc7f\\x80\\xff\\udd00"),
        ("\x9f\u202e\uffff\U000e0041", "\\x9f\\u202e\\uffff\\U000e0041"),
        ("\u0100 \u3000\U00010000", "\u0100 \u3000\U00010000"),
    ):
        described = {"subject": ((("organizationName", name),),)}
        assert host_identity(described, b"").subject == f"organizationName={told}"
