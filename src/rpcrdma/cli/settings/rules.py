"""The mistakes in the rules of an export: rules that no call can match, and terms that contradict each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from rpcrdma.cli.export_options import ALL_HOSTS, Exported, ExportedRule
from rpcrdma.cli.host_names import WRITE_ADDRESS, HostKey, HostKeys, HostNames, network_of
from rpcrdma.cli.settings.file import Mistake
from rpcrdma.commands import describe

__all__ = ["contradictions", "doubts", "faults_of_hosts"]

_Items: TypeAlias = Sequence[Sequence[HostKey]]
"""For each host, principal or certificate that a rule names, the keys of which a wider rule has at least one."""

_MATCHED: Final = frozenset({"hosts", "principals", "certificates"})
"""The attributes of a rule that decide which calls it matches."""


def contradictions(export: Exported, *, has_authorities: bool) -> Iterator[Mistake]:
    """Yields an error for each reason why no call can match a rule of an export, in the order of the rules.

    The reasons: an earlier rule matches all calls that this rule could match; the rule gives access to principals, but
    none of its flavors is of Kerberos; it names certificates, but the server has no certificate authorities (setting
    tls-ca, `has_authorities`). Values that the configuration file has in a wrong form are not judged.
    """
    above_all = _RulesAbove()
    for rule in export.rules:
        if rule.mistaken.isdisjoint(_MATCHED) and (above := above_all.covering(rule)) is not None:
            text = f"no call can match this rule behind that of {above.origins['']}; move it up, or leave it out"
            yield Mistake(rule.origins[""], text)
        proves = any(each.service for each in rule.flavors) or "sec" in rule.mistaken
        if rule.principals and rule.access != "none" and not proves:
            text = 'principals take a proof by Kerberos; add sec = ["krb5p"], krb5i or krb5'
            yield Mistake(rule.origins["principals"], text)
        if rule.certificates and not has_authorities:
            text = 'no host can prove a certificate; set tls-ca and tls-cert, and xprtsec = "mtls" for TCP'
            yield Mistake(rule.origins["certificates"], text)


def doubts(export: Exported, names: HostNames) -> Iterator[Mistake]:
    """Yields the results of `faults_of_hosts`, then a warning for each rule by which every host may act as root.

    The export's own terms are judged as its last rule. Rules whose `squash` comes from one place share a warning; those
    with mistaken values have none. `names` must have looked up the hosts of all rules.
    """
    yield from faults_of_hosts(export, names)
    trusting = [rule for rule in (*export.rules, export) if not rule.mistaken and _trusts_all(rule)]
    for place in dict.fromkeys(rule.origins["squash"] for rule in trusting):
        text = f'squash "none" lets every host act as root in {export.name}; name hosts, or ask for krb5 or mtls'
        yield Mistake(place, text, is_warning=True)


class _RulesAbove:
    """An index of the earlier rules of an export, to find one that makes a later rule useless.

    Comparing each of a thousand rules with all earlier ones would take seconds.
    """

    def __init__(self) -> None:
        self._rules: list[tuple[ExportedRule, list[set[HostKey]]]] = []
        """Each rule with the keys of its hosts, of its principals and of its certificates."""
        self._groups: dict[tuple[bool, ...], _Group] = {}
        """The rules that name hosts, principals and certificates or not, by these three answers."""
        self._hosts = HostKeys()

    def covering(self, rule: ExportedRule) -> ExportedRule | None:
        """Returns the first added rule that matches every call that `rule` could match; if there is none, adds `rule`.

        Returns None after adding. To be called for the rules in their order. A covered rule is not added, since the
        rule that covers it covers the same later rules.
        """
        hosts = () if len(_whole_families(rule.hosts)) > 1 else rule.hosts
        named: list[_Items] = [
            [self._hosts.over(host) for host in hosts],
            [_over_name(name) for name in rule.principals],
            [_over_name(name) for name in rule.certificates],
        ]
        found = [number for group in self._groups.values() for number in self._first_of(group, named)]
        if found:
            return self._rules[min(found)][0]
        keys: list[set[HostKey]] = [{self._hosts.add(host) for host in hosts}, {*rule.principals}, {*rule.certificates}]
        group = self._groups.setdefault(tuple(map(bool, keys)), _Group())
        group.add(len(self._rules), keys)
        self._rules.append((rule, keys))
        return None

    def _first_of(self, group: _Group, named: Sequence[_Items]) -> Iterator[int]:
        """Yields the number of the first rule in `group` that covers a later rule; nothing if none does.

        `named` has three sequences, of the hosts, the principals and the certificates that the later rule names. Each
        of these has several keys, of which a covering rule has at least one (`_Group.candidates`).
        """
        for number in group.candidates(named):
            if all(_has_all(keys, items) for keys, items in zip(self._rules[number][1], named, strict=True)):
                yield number
                return


class _Group:
    """An index of rules that name the same kinds of callers out of three kinds: hosts, principals, certificates.

    It has each rule by its number, which is the rule's index in `_RulesAbove`.
    """

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._by_key: list[defaultdict[HostKey, list[int]]] = []
        """For hosts, principals and certificates each: the numbers of the rules that have a key."""

    def add(self, number: int, keys: Sequence[set[HostKey]]) -> None:
        """Adds the rule `number`, which is larger than the numbers added before.

        `keys` has three sets, the keys of the rule's hosts, of its principals and of its certificates; a set is empty
        if the rule names none of that kind.
        """
        self._numbers.append(number)
        self._by_key = self._by_key or [defaultdict(list) for _ in keys]
        for by_key, some in zip(self._by_key, keys, strict=True):
            for key in some:
                by_key[key].append(number)

    def candidates(self, named: Sequence[_Items]) -> Sequence[int]:
        """Returns the ascending numbers of rules of the group, among them each that covers a later rule.

        A rule covers a later one if it matches every call that the later one could match; whether a rule returned does
        is left to the caller. `named` has three sequences, for the hosts, the principals and the certificates that the
        later rule names. For each of these hosts and names there are several keys, of which a covering rule has at
        least one, unless the group names none of that kind. The method looks up the rules with such a key for each host
        and name, and returns the shortest result; all rules if the group names no callers; none if the later rule names
        none of a kind that the group names.
        """
        fewest = self._numbers
        for by_key, items in zip(self._by_key, named, strict=True):
            if by_key and not items:
                return ()
            for keys in items if by_key else ():
                some = [by_key[key] for key in keys if key in by_key]
                if sum(map(len, some)) < len(fewest):
                    fewest = sorted({number for numbers in some for number in numbers})
        return fewest


def _has_all(keys: set[HostKey], items: _Items) -> bool:
    """Returns whether `keys` has a key from each sequence in `items`, or is empty, which stands for all callers."""
    return not keys or all(not keys.isdisjoint(each) for each in items)


def _over_name(name: str) -> Sequence[HostKey]:
    """Returns the names by which a rule covers the principal or certificate `name`: itself, and *@REALM.

    For a certificate, which has no realm, the second name is one that no rule has.
    """
    return name, f"*@{name.rpartition('@')[2]}"


def faults_of_hosts(export: Exported, names: HostNames) -> Iterator[Mistake]:
    """Yields a mistake for each host name without an address in the rules of an export and in its own terms.

    It is a warning if the server can serve the export without that host: `missing` is "skip", and no later rule gives
    other or more rights, or asks for less proof, than the rule that names it. `names` must have looked up the hosts.
    """
    lacking: list[tuple[ExportedRule, OSError]] = []
    for rule in (*export.rules, export):
        # A rule may have the hosts of the export.
        hosts = () if rule is not export and rule.hosts is export.hosts else rule.hosts
        lacking += [(rule, error) for error in names.networks_of(host for host in hosts if host != ALL_HOSTS)[1]]
    restrained = frozenset(export.restrained_hosts if lacking else ())
    for rule, error in lacking:
        text = f"{describe(error)[0]}; {WRITE_ADDRESS}"
        serves = export.missing == "skip" and error.filename not in restrained
        yield Mistake(rule.origins["hosts"], text, is_warning=serves)


def _trusts_all(rule: ExportedRule) -> bool:
    """Returns whether the rule gives root's rights to calls with UID 0 from all of IPv4 or IPv6, without any proof."""
    return (
        rule.squash == "none"
        and rule.access != "none"
        and bool(_whole_families(rule.hosts))
        and not rule.certificates
        and not rule.principals
        and any(each.service is None for each in rule.flavors)
        and rule.xprtsec != "mtls"
    )


def _whole_families(hosts: Sequence[str]) -> set[int]:
    """Returns the versions of IP of which `hosts` has all addresses: both with "*" or no host; by 0.0.0.0/0 or ::/0."""
    if not hosts or ALL_HOSTS in hosts:
        return {4, 6}
    return {each.version for each in map(network_of, hosts) if each is not None and not each.prefixlen}
