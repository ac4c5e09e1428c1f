"""torch's key-value stores, by names that type checkers can see.

``torch.distributed`` has them too, but imports them under a condition.
"""

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

__all__ = ["PrefixStore", "Store", "TCPStore"]
