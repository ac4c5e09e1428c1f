"""The hosts of a job meet before their agents start: what is in the way is told within seconds.

The first node listens at the very place at which the agents will meet; the others say hello there.
Once all have come, they all let go of it.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from contextlib import suppress

from ddpcheck.errors import LaunchError, MeetingError
from ddpcheck.launch.first_node import (
    ANSWER_S,
    LOOK_S,
    NEWS_S,
    Answer,
    First,
    Node,
    Place,
    Say,
    read,
    write,
)
from ddpcheck.launch.identity import is_this_host
from ddpcheck.machine.ports import owner_of
from ddpcheck.network.reach import Reached, connected
from ddpcheck.settings import LaunchOptions

TRY_S = 2.0
# Agents whose meeting place is a store of torch's; others (etcd) have a service for it.
BACKENDS = ("static", "c10d")


def meet_nodes(options: LaunchOptions, deadline_s: float, say: Say = sys.stderr.write) -> None:
    """Return when all nodes have come; raises LaunchError, which says what is in the way."""
    if options.rdzv_backend not in BACKENDS:
        return
    me = Node(options.node_rank, options.nnodes, socket.gethostname(), os.getpid())
    if options.rdzv_backend == "static" and me.node_rank >= me.nnodes:
        raise LaunchError(f"--node-rank is {me.node_rank}: with --nnodes {me.nnodes} it is below")
    place = place_of(options)
    until = time.monotonic() + deadline_s
    listener = _listener(options, place)
    if listener is None:
        _join(me, place, until, say)
        return
    with listener:
        First(me, place, listener, numbered=options.rdzv_backend == "static").wait(until, say)


def place_of(options: LaunchOptions) -> Place:
    """Return where the agents meet: the rendezvous endpoint, or the master's address and port."""
    if not options.rdzv_endpoint:
        return Place(options.master_addr, options.master_port)
    host, colon, port = options.rdzv_endpoint.rpartition(":")
    if not colon or not port.isdecimal():
        return Place(options.rdzv_endpoint.strip("[]"), options.master_port)
    return Place(host.strip("[]"), int(port))


def _listener(options: LaunchOptions, place: Place) -> socket.socket | None:
    """Return the listener if this node is the first, or None."""
    numbered = options.rdzv_backend == "static"
    if (numbered and options.node_rank) or (not numbered and not is_this_host(place.host)):
        return None
    try:
        return _listen(place.port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise LaunchError(f"cannot listen at {place}: {error.strerror}") from error
        if not numbered:
            return None  # another node on this host came first
        owner = owner_of(place.port)
        raise MeetingError(
            f"port {place.port} of {socket.gethostname()} is taken{f' by {owner}' if owner else ''}"
            ": end that process, or choose another --master-port on all nodes",
            Reached.OTHER,
            owner,
        ) from error


def _listen(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        with suppress(OSError):  # IPv6 may be off: then there is IPv4
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024
            )
    return socket.create_server(("", port), backlog=1024)


def _join(me: Node, place: Place, until: float, say: Say) -> None:
    began = time.monotonic()
    news_at = began + NEWS_S
    why, kind = "", Reached.REFUSED
    while True:
        with connected(place.host, place.port, TRY_S) as (connection, tried):
            answer = _greet_first(connection, me, until, news_at, say) if connection else None
        if answer is not None and answer.go:
            return
        if answer is not None and answer.error:
            raise LaunchError(f"node {me.node_rank} on {me.host} was sent away: {answer.error}")
        now = time.monotonic()
        # A firewall that says no says it only so often a second, and between is silent.
        if not why or tried.kind is not Reached.FILTERED:
            why = _stranger(place) if tried.is_open else tried.detail
            kind = Reached.SILENT if tried.is_open else tried.kind
        unknown = tried.kind is Reached.UNRESOLVED and now - began > NEWS_S
        if now > until or unknown:
            told = f"node {me.node_rank} on {me.host} cannot meet the first node: {why}"
            raise MeetingError(told, kind)
        if now > news_at:
            news_at = now + NEWS_S
            say(f"ddpcheck: node {me.node_rank} on {me.host}: {why}; trying on\n")
        time.sleep(LOOK_S)


def _stranger(place: Place) -> str:
    return (
        f"{place} accepts connections, and does not answer as the first node: a proxy or sidecar, "
        "another program, or a first node that was started in another way"
    )


def _greet_first(
    connection: socket.socket, me: Node, until: float, news_at: float, say: Say
) -> Answer | None:
    """Say hello and wait for the word to go on; None when what answers is no first node."""
    with suppress(OSError):
        connection.settimeout(ANSWER_S)
        write(connection, me)
        answer = read(connection, Answer)
        while answer is not None and not answer.go and not answer.error:
            if time.monotonic() > news_at:
                news_at = time.monotonic() + NEWS_S
                say(f"ddpcheck: node {me.node_rank} on {me.host}: waiting for {answer.missing}\n")
            connection.settimeout(max(LOOK_S, until - time.monotonic() + ANSWER_S))
            answer = read(connection, Answer)
        return answer
    return None
