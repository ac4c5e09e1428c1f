"""torch's key-value stores, from where type checkers see them.

``torch.distributed`` has them too, but imports them under a condition.
"""

from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import TCPStore

__all__ = ["PrefixStore", "Store", "TCPStore"]
