"""Which variables all ranks must have in common, and how surely a difference breaks the job.

What is called sure was tried: two ranks on one host's GPUs, torch 2.11, NCCL 2.28.9. With another
NCCL_BUFFSIZE on one of them, sums were wrong; the others hung or failed at their first collective.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from itertools import combinations

from ddpcheck.variables.environ import SEARCH_PATHS, relevant
from ddpcheck.variables.registry import VARIABLES
from ddpcheck.variables.values import ALGORITHMS, PROTOCOLS


class Clash(StrEnum):
    """What a difference does."""

    SURE = "it breaks the job"
    LIKELY = "it may break the job, or make ranks slower than others"
    HARMLESS = "it does no harm by itself"


COMPARED = (
    *("NCCL_", "TORCH_NCCL_", "TORCH_DISTRIBUTED_", "TORCH_GLOO_", "GLOO_"),
    *("RCCL_", "OFI_NCCL_", "FI_", "UCX_"),
)
# These differ by nature, or only steer logs; who is who, the checks of the launch compare.
UNCOMPARED = (
    *("RANK", "WORLD_", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_", "TORCH_FR_"),
    *(
        "CUDA_VISIBLE_DEVICES",
        "CUDA_MPS_",
        "CUDA_CACHE_",
        "NCCL_HOSTID",
        "NCCL_DEBUG",
        "TORCH_SHOW_",
    ),
    *("TORCH_CPP_LOG", "TORCH_NCCL_TRACE_", "TORCH_NCCL_DEBUG_INFO_", "NCCL_PROXY_CPUSET"),
    *("OMP_PLACES", "OMP_PROC_BIND", "NCCL_TOPO_DUMP", "NCCL_GRAPH_DUMP", "NCCL_INSPECTOR_"),
    *("NCCL_PROFILE_", "NCCL_VERSION", "FI_LOG_", "UCX_LOG_", "TORCH_DISABLE_ADDR2LINE"),
    *("TORCH_SYMBOLIZE_MODE", "NCCL_RAS_", "NCCL_SET_THREAD_NAME", "NCCL_COMM_ID"),
)
PLACES = ("_DIR", "_PATH", "_HOME", "_ROOT", "_LIB", "_FILE", "_INCLUDE", "_CPUSET")
# Interfaces and adapters, files about the host, and CPU threads may be other ones on each host.
OF_THE_HOST = frozenset(
    {
        *(
            "NCCL_IB_HCA",
            "NCCL_IB_GID_INDEX",
            "NCCL_TOPO_FILE",
            "NCCL_GRAPH_FILE",
            "NCCL_CONF_FILE",
        ),
        *("UCX_NET_DEVICES", "FI_OPX_HFI_SELECT", "NCCL_IGNORE_CPU_AFFINITY"),
        *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    }
)
FILES_THAT_STEER = frozenset({"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE"})
DEFAULTS = {
    "NCCL_BUFFSIZE": "4194304",
    "NCCL_RUNTIME_CONNECT": "1",
    "TORCH_DISTRIBUTED_DEBUG": "off",
    "CUDA_LAUNCH_BLOCKING": "0",
    "CUDA_DEVICE_ORDER": "fastest_first",
    "NCCL_NET_SHARED_BUFFERS": "1",
}
NEEDS_A_GPU = ("NCCL_", "TORCH_NCCL_", "CUDA_", "PYTORCH_", "RCCL_", "OFI_NCCL_")
SHORTEST_HOST_LENGTH = 4  # a shorter name may stand in a path by chance


def compared(environ: Mapping[str, str], host: str) -> dict[str, str]:
    """Return the variables that ranks are to have in common; the host's own name becomes <host>."""
    told = {name: value for name, value in relevant(environ).items() if _is_compared(name)}
    if len(host) < SHORTEST_HOST_LENGTH:
        return told
    return {name: value.replace(host, "<host>") for name, value in told.items()}


def clash(name: str, values: Collection[str | None], *, on_gpu: bool) -> Clash:
    """Return what it does when the ranks have these values of a variable; None is not set."""
    texts = {_normal(name, value) for value in values}
    if len(texts) == 1 or name in OF_THE_HOST or name.endswith("_IFNAME"):
        return Clash.HARMLESS
    if name.startswith(NEEDS_A_GPU) and not on_gpu:
        return Clash.HARMLESS
    if name == "PATH":
        return Clash.LIKELY if None in values else Clash.HARMLESS
    if name == "TORCH_DISTRIBUTED_DEBUG":
        return Clash.SURE if "detail" in texts else Clash.HARMLESS
    return Clash.SURE if _is_sure(name, texts) else Clash.LIKELY


def _is_compared(name: str) -> bool:
    if name in SEARCH_PATHS or name in FILES_THAT_STEER:
        return True
    if name.startswith(UNCOMPARED) or name.endswith(PLACES):
        return False
    return name.startswith(COMPARED) or name in VARIABLES


def _normal(name: str, value: str | None) -> str:
    if value is None:
        return DEFAULTS.get(name, "0" if name.endswith("_DISABLE") else "")
    return value if name in SEARCH_PATHS else value.strip().casefold()


def _is_sure(name: str, texts: Collection[str]) -> bool:
    pairs = list(combinations(texts, 2))
    if name == "NCCL_PROTO":
        # LL carries what is small and Simple what is large, wherever they are not ruled out.
        allowed = {text: _allowed(text, PROTOCOLS) - {"ll128"} for text in texts}
        return any(allowed[one] != allowed[other] for one, other in pairs)
    if name == "NCCL_ALGO":
        lists = {text: _allowed(text, ALGORITHMS) for text in texts}
        return any(lists[one].isdisjoint(lists[other]) for one, other in pairs)
    is_tried = name in ("NCCL_BUFFSIZE", "NCCL_LL_BUFFSIZE", "NCCL_RUNTIME_CONNECT")
    return is_tried and "" not in texts


def _allowed(text: str, names: Collection[str]) -> set[str]:
    """Return what a list allows; all, when it is empty or speaks of single functions."""
    every = {name.casefold() for name in names}
    if not text or ":" in text or ";" in text:
        return every
    listed = set(text.removeprefix("^").replace(" ", "").split(","))
    return every - listed if text.startswith("^") else every & listed
