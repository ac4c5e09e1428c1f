"""Wrong values that a library gives on every machine alike: no fault of this one.

Each entry was confirmed by those who make the library, and seen by us on healthy GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddpcheck.finding import Finding, Severity

if TYPE_CHECKING:
    from ddpcheck.measures.wrong_elements import Wrong


@dataclass(frozen=True)
class Known:
    """One such fault; ``source`` is where it was confirmed."""

    title: str
    applies: Callable[[Wrong], bool]
    fix: str
    source: str

    def finding(self, firsts: Mapping[int, Wrong]) -> Finding:
        """Return what to tell of it, from where each rank met it first.

        No more than a remark: it matters only to a job that uses just this.
        """
        rank, wrong = next(iter(firsts.items()))
        return Finding(
            title=self.title,
            message=f"rank {rank}: {wrong}; so it is on every machine with this torch "
            f"({self.source})",
            fix=self.fix,
            ranks=tuple(firsts),
            severity=Severity.INFO,
        )


KNOWN = (
    # The factor is handed to NCCL as a float32, of which it reads the two low bytes. Seen with
    # torch 2.11 and NCCL 2.28.9 on H200.
    Known(
        "torch gives NCCL a factor of 0 for PREMUL_SUM of bfloat16",
        lambda own: own.op == "PREMUL_SUM" and own.dtype == "bfloat16" and own.got == 0,
        "nothing, unless the job has FSDP2's set_gradient_divide_factor with bfloat16 gradients: "
        "they become 0; reduce in float32, or install a torch that has the fix",
        "https://github.com/pytorch/pytorch/issues/190745",
    ),
)


def known_fault(wrong: Wrong) -> Known | None:
    """Return the library's fault that a wrong element looks like, or None."""
    return next((known for known in KNOWN if known.applies(wrong)), None)
