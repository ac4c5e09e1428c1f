import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdma_trees import LINK_LOCAL, USUAL, V1, V2

from ddpcheck.machine.infiniband import Gid, Port
from ddpcheck.network.roce import (
    FOR_IPV6,
    UNTOLD,
    GidRule,
    gid_rule,
    right_indexes,
    right_rule,
    used_gid,
)

Table = dict[int, tuple[str, str]]
NEW = (2, 28, 9)
SIX: Table = {0: (LINK_LOCAL, V1), 1: (LINK_LOCAL, V2), 2: ("fd00::5", V1), 3: ("fd00::5", V2)}
TWO = USUAL | {4: ("10.1.0.1", V1), 5: ("10.1.0.1", V2)}


def port(table: Table) -> Port:
    gids = tuple(Gid(index, *gid) for index, gid in table.items())
    return Port("mlx5_0", 1, "ACTIVE", "LinkUp", "Ethernet", usable=True, gids=gids)


@pytest.mark.parametrize(
    ("table", "rule", "nccl", "taken"),
    [
        (USUAL, UNTOLD, (2, 20, 5), 0),
        (USUAL, UNTOLD, (2, 21, 5), 3),
        (USUAL, UNTOLD, (2, 4), 0),
        (USUAL, UNTOLD, (), 0),
        (USUAL, UNTOLD, (3, 0, 0), 3),
        (USUAL, GidRule(index=1), NEW, 1),
        (USUAL, GidRule(index=3), (2, 18, 1), 3),
        (USUAL, GidRule(index=5), NEW, None),
        (USUAL, GidRule(version=1), NEW, 2),
        (USUAL, FOR_IPV6, NEW, 0),
        (SIX, UNTOLD, NEW, 0),
        (SIX, FOR_IPV6, NEW, 3),
        (SIX, GidRule(family=6, network="fd01::/16"), NEW, 0),
        (TWO, UNTOLD, NEW, 3),
        (TWO, GidRule(network="10.1.0.0/16"), NEW, 5),
        (TWO, GidRule(network="192.168.0.0/16"), NEW, 0),
        ({3: ("10.0.0.1", V2)}, UNTOLD, NEW, 3),
        ({3: ("fd00::5", V2)}, UNTOLD, NEW, None),
        ({0: ("10.0.0.1", V2)}, FOR_IPV6, NEW, None),
        ({0: ("169.254.0.1", V2), 1: ("10.0.0.1", V2)}, UNTOLD, NEW, 0),
        ({}, UNTOLD, NEW, None),
    ],
)
def test_the_gid_that_is_used(
    table: Table, rule: GidRule, nccl: tuple[int, ...], taken: int | None
) -> None:
    used = used_gid(port(table), rule, nccl)
    assert (used.index if used else None) == taken


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({}, UNTOLD),
        ({"NCCL_IB_GID_INDEX": "3"}, GidRule(index=3)),
        ({"NCCL_IB_GID_INDEX": "0x3"}, GidRule(index=3)),
        ({"NCCL_IB_GID_INDEX": "-1"}, UNTOLD),
        ({"NCCL_IB_GID_INDEX": ""}, UNTOLD),
        ({"NCCL_IB_GID_INDEX": "three"}, GidRule(index=0)),
        ({"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, FOR_IPV6),
        ({"NCCL_IB_ADDR_FAMILY": "af_inet6"}, UNTOLD),
        ({"NCCL_IB_ROCE_VERSION_NUM": "1"}, GidRule(version=1)),
        ({"NCCL_IB_ADDR_RANGE": "10.1.2.3/16"}, GidRule(network="10.1.0.0/16")),
        ({"NCCL_IB_ADDR_RANGE": "10.1.2.3"}, UNTOLD),
        ({"NCCL_IB_ADDR_RANGE": "10.1.2.3/255.255.0.0"}, UNTOLD),
        ({"NCCL_IB_ADDR_RANGE": "fd00::/8"}, UNTOLD),
        (
            {"NCCL_IB_ADDR_RANGE": "fd00::/8", "NCCL_IB_ADDR_FAMILY": "AF_INET6"},
            GidRule(family=6, network="fd00::/8"),
        ),
    ],
)
def test_settings_are_read_as_nccl_reads_them(settings: dict[str, str], rule: GidRule) -> None:
    assert gid_rule(settings) == rule
    told = {name: value for name, value in settings.items() if name in rule.settings()}
    assert gid_rule(rule.settings()) == rule
    assert rule.settings().keys() == told.keys()


def test_which_gids_lead_on() -> None:
    gids = port(SIX | {4: ("10.0.0.1", V1), 5: ("10.0.0.1", V2), 6: ("10.0.0.1", "")}).gids
    assert [gid.index for gid in gids if UNTOLD.leads_on(gid)] == [3, 5]
    assert [gid.index for gid in gids if GidRule(version=1).leads_on(gid)] == [2, 4]


def test_what_would_be_right() -> None:
    assert right_indexes([(UNTOLD, port(USUAL)), (UNTOLD, port(TWO))]) == {3}
    assert right_indexes([(UNTOLD, port(SIX))]) == {3}
    assert right_indexes([(UNTOLD, port({}))]) == set()
    assert right_rule([port(USUAL), port(TWO)]) == UNTOLD
    assert right_rule([port(SIX)]) == FOR_IPV6
    assert right_rule([port(USUAL), port(SIX)]) is None


PLACES = [
    *((address, kind) for address in ("10.0.0.1", "10.1.0.1", "fd00::5") for kind in (V1, V2)),
    *((LINK_LOCAL, V1), (LINK_LOCAL, V2), ("169.254.0.1", V2), ("fd01::5", V2), ("10.0.0.1", "")),
]
RULES = [
    GidRule(None, family, network, version)
    for version in (1, 2)
    for family, network in [
        *((4, ""), (4, "10.1.0.0/16"), (4, "10.0.0.0/8"), (4, "192.168.0.0/16")),
        *((6, ""), (6, "fd01::/16"), (6, "fd00::/8")),
    ]
]


@given(
    st.lists(st.one_of(st.none(), st.sampled_from(PLACES)), min_size=1, max_size=6),
    st.sampled_from(RULES),
)
def test_nccls_own_code_would_take_the_same(
    places: list[tuple[str, str] | None], rule: GidRule
) -> None:
    table = {index: place for index, place in enumerate(places) if place}
    used = used_gid(port(table), rule, NEW)
    # The table of a real port ends with empty places.
    taken = _taken_by_nccl([*places, None, None], rule)
    assert (used.index if used else None) == (taken if taken in table else None)


def _taken_by_nccl(places: list[tuple[str, str] | None], rule: GidRule) -> int:
    """Return what ncclIbGetGidIndex of NCCL v2.30.7 does, line by line, on bits."""
    raw = [_bits(place[0]) if place else 0 for place in places]
    kinds = [{V1: 1, V2: 2}.get(place[1], -1) if place else -1 for place in places]
    index = 0
    for candidate in range(1, len(places)):
        family, candidate_family = _family(raw[index]), _family(raw[candidate])
        matches = _matches(raw[candidate], rule)
        if candidate_family != family and candidate_family == rule.family and matches:
            index = candidate
            continue
        if candidate_family != rule.family or not _is_valid(raw[candidate]) or not matches:
            continue
        differs = kinds[index] != kinds[candidate] or not _is_valid(raw[index])
        if differs and kinds[candidate] == rule.version:
            index = candidate
    return index


def _bits(address: str) -> int:
    parsed = ipaddress.ip_address(address)
    return int(parsed) | (0xFFFF << 32 if parsed.version == 4 else 0)


def _family(raw: int) -> int:
    return 4 if raw >> 32 == 0xFFFF else 6


def _is_valid(raw: int) -> bool:
    is_configured = raw not in {0, 0xFE80 << 112}
    return is_configured and raw >> 64 != 0xFE80 << 48


def _matches(raw: int, rule: GidRule) -> bool:
    if not rule.network:
        return True
    network = ipaddress.ip_network(rule.network)
    bits, compared = (32, raw & 0xFFFFFFFF) if rule.family == 4 else (128, raw)
    shift = bits - network.prefixlen
    return compared >> shift == int(network.network_address) >> shift
