"""torch's key-value stores, from where type checkers see them.

``torch.distributed`` has them too, but imports them under a condition.
"""

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

__all__ = ["PrefixStore", "Store", "TCPStore"]
