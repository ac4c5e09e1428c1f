"""The pytest plug-in: ``@pytest.mark.ranks(2)``, and the fixtures that go with it.

pytest loads it in every run, whether or not a test asks for ranks: it imports nothing else before
one does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ddpcheck.report import Report
    from ddpcheck.testing.pool import Pool
    from ddpcheck.testing.rank import RankPlugin
    from ddpcheck.testing.world import World

MARK = (
    "ranks(n, *, timeout=ranks_timeout, backend='auto', group=True): run the test's body and its "
    "fixtures on n real ranks, in a process group unless group=False"
)
SET_UP_THERE = "the fixtures of a test on ranks are made there, with the test"
POOL: pytest.StashKey[Pool] = pytest.StashKey()
# Of a rank's own pytest, which the plug-in's other half runs.
RANK: pytest.StashKey[RankPlugin] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what pytest's configuration file may set."""
    parser.addini("ranks_timeout", "seconds that a test may take on ranks", default="60")
    parser.addini("ranks_preflight", "ranks of the fixture ddpcheck_report", default="2")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARK)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a marked test on ranks, which run its fixtures, too; leave others to pytest."""
    if RANK in item.config.stash or item.get_closest_marker("ranks") is None:
        return None
    if item.config.getoption("setupplan", default=False):
        return None  # pytest names the fixtures, and makes none
    if item.config.getoption("setuponly", default=False):
        item.add_marker(pytest.mark.skip(reason=f"{SET_UP_THERE}: --setup-plan names them"))
        return None
    from ddpcheck.testing.protocol import run_on_ranks

    run_on_ranks(item, nextitem, lambda: _pool(item.config))
    return True


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, Any, Any]:
    """End the ranks after the last test, before others conclude, as pytest-cov does."""
    try:
        return (yield)
    finally:
        if POOL in session.config.stash:
            session.config.stash[POOL].close()
            del session.config.stash[POOL]


@pytest.fixture
def ddpcheck_world(request: pytest.FixtureRequest) -> World:
    """Return which rank this is, of how many, its device, and its process group."""
    return _on_rank(request, "ddpcheck_world").world()


@pytest.fixture
def ddpcheck_tmp_path(request: pytest.FixtureRequest) -> Path:
    """Return an empty folder of this test, the same for all its ranks; tmp_path is a rank's own."""
    return _on_rank(request, "ddpcheck_tmp_path").shared_folder()


@pytest.fixture(scope="session")
def ddpcheck_report(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Report:
    """Return the report of a preflight of this machine, which the session runs once."""
    _not_on_rank(request, "ddpcheck_report")
    from ddpcheck.testing.commands import preflight

    ranks = str(request.config.getini("ranks_preflight"))
    if not ranks.isdecimal():
        raise pytest.UsageError(f"ranks_preflight = {ranks}: give a number of ranks")
    return preflight(int(ranks), tmp_path_factory.mktemp("ddpcheck"))


@pytest.fixture
def ddpcheck_watch(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Report]:
    """Return what runs a training function on ranks, watched, and fails on what goes wrong."""
    _not_on_rank(request, "ddpcheck_watch")
    from ddpcheck.testing.commands import Watching

    return Watching(tmp_path)


def _pool(config: pytest.Config) -> Pool:
    if POOL not in config.stash:
        from ddpcheck.testing.pool import Pool
        from ddpcheck.testing.rank import setup_of

        config.stash[POOL] = Pool(setup_of(config))
    return config.stash[POOL]


def _on_rank(request: pytest.FixtureRequest, name: str) -> RankPlugin:
    if RANK not in request.config.stash:
        pytest.fail(f"{name} is for tests on ranks: mark the test with @pytest.mark.ranks(2)")
    return request.config.stash[RANK]


def _not_on_rank(request: pytest.FixtureRequest, name: str) -> None:
    if RANK in request.config.stash:
        pytest.fail(f"{name} starts ranks of its own: take it without @pytest.mark.ranks")
