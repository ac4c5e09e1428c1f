"""What the user asked for, as plain values that travel to every rank."""

from dataclasses import dataclass, field

from ddpcheck.check import Profile
from ddpcheck.configuration import Configuration
from ddpcheck.finding import Severity
from ddpcheck.measures.mesh import Axis


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """How ranks come to be, under torchrun's own option names."""

    nproc_per_node: int | None = None
    nnodes: int = 1
    node_rank: int = 0
    master_addr: str = "127.0.0.1"
    master_port: int = 29500
    rdzv_backend: str = "static"
    rdzv_endpoint: str = ""
    rdzv_id: str = "none"


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings of ``ddpcheck run``."""

    select: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    profile: Profile = Profile.STANDARD
    backend: str = "auto"
    target: str = "minigpt"
    data: str = ""
    mesh: tuple[Axis, ...] = ()
    baseline: str = ""
    baseline_bound_ratio: float = 0.05
    report_dir: str = "reports"
    fail_on: Severity = Severity.ERROR
    format: str = "text"
    deadline_s: float = 60.0
    configuration: Configuration = field(default_factory=Configuration)
    command: str = "ddpcheck run"


@dataclass(frozen=True, kw_only=True)
class WatchSettings(RunSettings):
    """The settings of ``ddpcheck watch``: ``script`` is a file or module, and its arguments.

    ``steps`` is how many optimizer steps are watched, 0 for all; ``then`` is stop or continue.
    """

    script: tuple[str, ...] = ()
    is_module: bool = False
    steps: int = 30
    then: str = "stop"


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """The settings of ``ddpcheck train``; None means: as the report recommends.

    ``options`` are those of the strategy alone, name and value. ``micro_batches``: None for as few
    as the strategy needs. ``checkpoint_every`` is in steps; 0 keeps the weights alone, at the end.
    """

    report: str = ""
    force: bool = False
    strategy: str = "ddp"
    mesh: tuple[Axis, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    precision: str | None = None
    steps: int = 300
    global_batch: int = 32
    micro_batches: int | None = None
    verify: bool = False
    verify_steps: int = 5
    scaling: bool = False
    data: str = ""
    checkpoint_dir: str = ""
    checkpoint_every: int = 100
    resume: bool = False
    backend: str = "auto"
    deadline_s: float = 600.0
    command: str = "ddpcheck train"
