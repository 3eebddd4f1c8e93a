"""The mistakes in the rules of an export: rules that no call can match, and terms that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rpcrdma.cli.export_options import ALL_HOSTS, Exported, ExportedRule
from rpcrdma.cli.host_names import HostNames, Network, network_of
from rpcrdma.cli.settings.file import Mistake
from rpcrdma.commands import describe

__all__ = ["contradictions", "covers", "doubts", "faults_of_hosts"]

_MATCHED: Final = frozenset({"hosts", "principals", "certificates"})
"""The attributes of a rule that decide which calls it matches."""


def contradictions(export: Exported, *, has_authorities: bool) -> Iterator[Mistake]:
    """Yields a mistake for each reason why no call can match a rule of an export, in the order of the rules.

    `has_authorities`: whether the server has certificate authorities (tls-ca), by which it checks clients' hosts.
    Nothing is said about values that are mistaken in the file.
    """
    known: list[ExportedRule] = []
    for rule in export.rules:
        if rule.mistaken.isdisjoint(_MATCHED):
            above = next((each for each in known if covers(each, rule)), None)
            if above is not None:
                text = f"no call can match this rule behind that of {above.origins['']}; move it up, or leave it out"
                yield Mistake(rule.origins[""], text)
            known.append(rule)
        proves = any(each.service for each in rule.flavors) or "sec" in rule.mistaken
        if rule.principals and rule.access != "none" and not proves:
            text = 'principals take a proof by Kerberos; add sec = ["krb5p"], krb5i or krb5'
            yield Mistake(rule.origins["principals"], text)
        if rule.certificates and not has_authorities:
            text = 'no host can prove a certificate; set tls-ca and tls-cert, and xprtsec = "mtls" for TCP'
            yield Mistake(rule.origins["certificates"], text)


def doubts(export: Exported, names: HostNames) -> Iterator[Mistake]:
    """Yields mistakes about rules of an export: hosts without an address, and rules that trust every host with root.

    `names` has looked up the hosts of all these rules; the terms of the export itself are the last rule.
    """
    yield from faults_of_hosts(export, names)
    for rule in (*export.rules, export):
        if (
            not rule.mistaken
            and _trusts_all(rule)
            and (rule is export or rule.origins["squash"] != export.origins["squash"])
        ):
            text = f'squash "none" lets every host act as root in {export.name}; name hosts, or ask for krb5 or mtls'
            yield Mistake(rule.origins["squash"], text, is_warning=True)


def covers(rule: ExportedRule, later: ExportedRule) -> bool:
    """Returns whether every call that the rule `later` could match matches `rule`, which stands before it."""
    for wide, narrow in ((rule.principals, later.principals), (rule.certificates, later.certificates)):
        if wide and (not narrow or not all(_is_among(each, wide) for each in narrow)):
            return False
    if not rule.hosts or ALL_HOSTS in rule.hosts:
        return True
    if not later.hosts or ALL_HOSTS in later.hosts:
        return False
    networks = [network for host in rule.hosts if (network := network_of(host)) is not None]
    return all(host in rule.hosts or _is_within(host, networks) for host in later.hosts)


def _is_among(name: str, names: Sequence[str]) -> bool:
    """Returns whether a principal or name of a certificate is in `names`, or its realm is there as *@REALM."""
    return name in names or f"*@{name.rpartition('@')[2]}" in names


def _is_within(host: str, networks: list[Network]) -> bool:
    network = network_of(host)
    return network is not None and any(
        network.version == each.version and network.subnet_of(each)  # type: ignore[arg-type]
        for each in networks
    )


def faults_of_hosts(export: Exported, names: HostNames) -> Iterator[Mistake]:
    """Yields a mistake for each host of the rules of an export that has no address; `names` has looked them up."""
    for rule in (*export.rules, export):
        # A rule may have the hosts of the export.
        hosts = () if rule is not export and rule.hosts is export.hosts else rule.hosts
        for error in names.networks_of(host for host in hosts if host != ALL_HOSTS)[1]:
            text = f"{describe(error)[0]}; correct the name, or write its address"
            serves = export.missing == "skip" and error.filename not in export.restrained_hosts
            yield Mistake(rule.origins["hosts"], text, is_warning=serves)


def _trusts_all(rule: ExportedRule) -> bool:
    """Returns whether every host whose calls claim to be of root gets the rights of root by the rule."""
    return (
        rule.squash == "none"
        and rule.access != "none"
        and rule.is_for_all_hosts
        and not rule.principals
        and any(each.service is None for each in rule.flavors)
        and rule.xprtsec != "mtls"
    )
