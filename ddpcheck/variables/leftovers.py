"""Switches that were meant for one test, and what it costs to leave them on.

Sources: the NCCL user guide, "Environment Variables", part "Debugging": these "should generally not
be set for production code"; torch's documentation of ProcessGroupNCCL's variables and of
TORCH_DISTRIBUTED_DEBUG; the CUDA programming guide, "CUDA Environment Variables".
"""

from collections.abc import Iterator, Mapping

import msgspec

# A line is: the name, the values that switch it on, where it matters, what it costs.
# "costly" matters everywhere, "mild" too, but little; "hosts" only between hosts; "p2p" only where
# GPUs reach each other, "ib" only between hosts with InfiniBand; "cpu" also in a run without GPUs.
TABLE = """
NCCL_P2P_DISABLE | 1 | p2p | GPUs of a host exchange data through its memory
NCCL_P2P_LEVEL | loc 0 | p2p | GPUs of a host exchange data through its memory
NCCL_SHM_DISABLE | 1 | costly | GPUs of a host that cannot reach each other use the network
NCCL_IB_DISABLE | 1 | ib | data between hosts goes over TCP, not over InfiniBand or RoCE
NCCL_NET | socket | ib | data between hosts goes over TCP, not over InfiniBand or RoCE
NCCL_NET_GDR_LEVEL | loc 0 | ib | NICs do not reach GPU memory: all data passes through the host's
NCCL_PXN_DISABLE | 1 | hosts | a GPU cannot use the NIC of another, so all-to-all gets slower
NCCL_NVLS_ENABLE | 0 | mild | NVSwitch does not reduce, which is slower on Hopper and later
NCCL_NVB_DISABLE | 1 | mild | GPUs without a direct NVLink use PCIe
NCCL_CUMEM_ENABLE | 0 | mild | memory cannot be registered, nor NVLink used between hosts
NCCL_DMABUF_ENABLE | 0 | mild | NICs need the module nvidia-peermem to reach GPU memory
NCCL_CHECK_POINTERS | 1 | costly | every collective asks the driver about its pointers
NCCL_CHECK_MODE | debug_local debug_global | costly | every collective checks its arguments
NCCL_LAUNCH_MODE | group | mild | kernels wait for each other to start
NCCL_DEBUG | trace | costly | NCCL logs every call
NCCL_DEBUG_SUBSYS | coll call all | costly | NCCL logs every collective
NCCL_DEBUG | info | mild | every rank logs some hundred lines when it starts
CUDA_LAUNCH_BLOCKING | 1 | costly | the CPU waits for every kernel: nothing overlaps
CUDA_DEVICE_WAITS_ON_EXCEPTION | 1 | costly | a faulty kernel waits for a debugger
CUDA_FORCE_PTX_JIT | 1 | costly | every kernel is compiled again when a process starts
CUDA_MODULE_LOADING | eager | mild | all kernels are loaded at the start
TORCH_DISTRIBUTED_DEBUG | detail | cpu | every collective is preceded by one that compares the ranks
TORCH_NCCL_BLOCKING_WAIT | 1 y yes t true | costly | the CPU waits for every collective
TORCH_NCCL_ASYNC_ERROR_HANDLING | 0 | costly | a failed or hung collective does not end the job
TORCH_NCCL_ENABLE_MONITORING | 0 n no f false | costly | nothing ends a process whose watchdog hangs
TORCH_NCCL_DESYNC_DEBUG | 1 y yes t true | costly | every collective writes to the store, twice
TORCH_NCCL_ENABLE_TIMING | 1 y yes t true | costly | every collective is timed, which can hang it
TORCH_NCCL_NAN_CHECK | 1 y yes t true | costly | every collective first searches its data for NaN
PYTORCH_NO_CUDA_MEMORY_CACHING | 1 | costly | every tensor waits for the driver to find memory
TORCH_COMPILE_DISABLE | 1 | mild | torch.compile does nothing
TORCHDYNAMO_DISABLE | 1 | mild | torch.compile does nothing
"""


class Switch(msgspec.Struct, frozen=True):
    """A switch that is on: ``scope`` is where it matters, ``cost`` what it does there.

    ``file`` is the one that sets it, '' for the environment.
    """

    name: str
    value: str
    scope: str
    cost: str
    file: str = ""


def switches_on(environ: Mapping[str, str]) -> list[Switch]:
    """Return the switches that are on, in the order of the table."""
    return list(_switches_on(environ))


def _switches_on(environ: Mapping[str, str]) -> Iterator[Switch]:
    logs = environ.get("NCCL_DEBUG", "").casefold() in ("info", "trace")
    for line in TABLE.strip().splitlines():
        name, values, scope, cost = (part.strip() for part in line.split("|"))
        value = environ.get(name, "")
        # Only a list of NCCL's parts has commas; '^' there means "all but these".
        words = set(value.casefold().replace(" ", "").split(","))
        if words & set(values.split()) and (logs or name != "NCCL_DEBUG_SUBSYS"):
            yield Switch(name, value, scope, cost)
