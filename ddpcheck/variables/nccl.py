"""NCCL's documented environment variables.

Source: the NCCL user guide, "Environment Variables" (docs/userguide/source/env.rst at v2.30.7). A
line is: name, kind of value (see values.py), version it came with, version it went with, meaning.
"""

DOCUMENTED = """
NCCL_SOCKET_IFNAME | interfaces | - | - | the network interfaces for sockets, also for NCCL's start
NCCL_SOCKET_FAMILY | exactly AF_INET AF_INET6 | - | - | the version of the IP protocol
NCCL_SOCKET_MAGIC | number | 2.30.7 | - | a mark that tells the sockets of one job from others
NCCL_SOCKET_RETRY_CNT | number | 2.24 | - | how often a refused connection is tried again
NCCL_SOCKET_RETRY_SLEEP_MSEC | number | 2.24 | - | the pause between such tries
NCCL_SOCKET_POLL_TIMEOUT_MSEC | number | 2.28 | - | how long the start waits in poll
NCCL_SOCKET_NTHREADS | number 1-16 | 2.4.8 | - | CPU threads for each connection
NCCL_NSOCKS_PERTHREAD | number | 2.4.8 | - | sockets for each such thread
NCCL_CROSS_NIC | number 0-2 | 2.5 | - | whether a ring may use different NICs on different hosts
NCCL_IB_HCA | interfaces | - | - | which InfiniBand or RoCE adapters and ports are used
NCCL_IB_TIMEOUT | number 0-31 | - | - | the InfiniBand timeout, as a power of two
NCCL_IB_RETRY_CNT | number 0-7 | 2.1.15 | - | how often InfiniBand sends again
NCCL_IB_GID_INDEX | number | 2.1.4 | - | the address of the adapter that RoCE uses
NCCL_IB_ADDR_FAMILY | exactly AF_INET AF_INET6 | 2.21 | - | the IP version of that address
NCCL_IB_ADDR_RANGE | text | 2.21 | - | the range of addresses to choose it from
NCCL_IB_ROCE_VERSION_NUM | number | 2.21 | - | the RoCE version of that address
NCCL_IB_SL | number | 2.1.4 | - | the InfiniBand service level
NCCL_IB_TC | number | 2.1.15 | - | the InfiniBand traffic class
NCCL_IB_FIFO_TC | number | 2.22.3 | - | the traffic class of control messages
NCCL_IB_RETURN_ASYNC_EVENTS | number | 2.23 | - | whether fatal InfiniBand events end communication
NCCL_OOB_NET_ENABLE | number | 2.23 | - | whether the start runs over the fast network
NCCL_OOB_NET_IFNAME | interfaces | 2.23 | - | which of its interfaces the start uses
NCCL_UID_STAGGER_THRESHOLD | number | 2.23 | - | from how many ranks on the start is staggered
NCCL_UID_STAGGER_RATE | number | 2.23 | - | messages a second of a staggered start
NCCL_NET | text | 2.10 | - | the network that must be used
NCCL_NET_PLUGIN | text | 2.11 | - | the network plug-in to load
NCCL_TUNER_PLUGIN | text | 2.19 | - | the tuner plug-in to load
NCCL_PROFILER_PLUGIN | text | 2.23 | - | the profiler plug-in to load
NCCL_ENV_PLUGIN | text | 2.28 | - | the plug-in that answers for environment variables
NCCL_IGNORE_CPU_AFFINITY | number | 2.4.6 | - | whether the GPU's CPUs count instead of the job's
NCCL_CONF_FILE | path | 2.23 | - | a file of settings, read instead of ~/.nccl.conf
NCCL_DEBUG | one-of VERSION WARN INFO ABORT TRACE | - | - | how much NCCL logs
NCCL_DEBUG_FILE | path | 2.2.12 | - | where the log goes
NCCL_DEBUG_SUBSYS | text | 2.3.4 | - | which parts of NCCL log
NCCL_DEBUG_TIMESTAMP_FORMAT | text | 2.26 | - | the form of the log's times
NCCL_DEBUG_TIMESTAMP_LEVELS | text | 2.26 | - | which log lines carry a time
NCCL_COLLNET_ENABLE | number | 2.6 | - | whether the network's switches may reduce
NCCL_COLLNET_NODE_THRESHOLD | number | 2.9.9 | - | from how many hosts on they do
NCCL_CTA_POLICY | text | 2.27 | - | how communication shares the GPU
NCCL_NETDEVS_POLICY | text | 2.28 | - | how NICs are dealt out to GPUs
NCCL_MULTI_RANK_GPU_ENABLE | number | 2.30 | - | whether ranks may share a GPU
NCCL_TOPO_FILE | path | 2.6 | - | a description of the host that is read before it is explored
NCCL_TOPO_DUMP_FILE | path | 2.6 | - | where the description that was found is written
NCCL_SET_THREAD_NAME | text | 2.12 | - | whether NCCL's threads have names
NCCL_P2P_DISABLE | number | - | - | whether GPUs of a host may not reach each other directly
NCCL_P2P_LEVEL | level | 2.3.4 | - | up to which distance they may
NCCL_P2P_DIRECT_DISABLE | number | 2.12.12 | - | whether user buffers may not be reached directly
NCCL_SHM_DISABLE | number | - | - | whether shared memory may not be used
NCCL_BUFFSIZE | number | - | - | bytes of the buffer between two GPUs
NCCL_NTHREADS | number | - | - | GPU threads for each channel
NCCL_MAX_NCHANNELS | number | 2.5 | - | the most channels
NCCL_MIN_NCHANNELS | number | 2.5 | - | the fewest channels
NCCL_CHECKS_DISABLE | number | 2.0.5 | 2.3.5 | whether arguments are not checked
NCCL_CHECK_POINTERS | number | 2.2.12 | - | whether each collective checks its pointers
NCCL_CHECK_MODE | text | 2.29.7 | - | what each collective checks
NCCL_LAUNCH_MODE | text | 2.1 | - | how kernels of several GPUs of one process start
NCCL_IB_DISABLE | number | - | - | whether InfiniBand and RoCE may not be used
NCCL_IB_AR_THRESHOLD | number | 2.6 | - | bytes from which on adaptive routing is used
NCCL_IB_OOO_RQ | number | 2.30 | - | whether messages may be taken out of order
NCCL_IB_QPS_PER_CONNECTION | number 1-128 | 2.10 | - | queue pairs for each connection
NCCL_IB_SPLIT_DATA_ON_QPS | number | 2.18 | - | whether messages are split over them
NCCL_IB_CUDA_SUPPORT | number | - | 2.4 | whether NICs read GPU memory
NCCL_IB_PCI_RELAXED_ORDERING | number 0-2 | 2.12 | - | whether PCI may reorder writes
NCCL_IB_ADAPTIVE_ROUTING | number | 2.16 | - | whether switches may choose the way
NCCL_IB_ECE_ENABLE | number | 2.23 | - | whether adapters agree on extensions
NCCL_MEM_SYNC_DOMAIN | number 0-1 | 2.16 | - | the memory domain of NCCL's kernels
NCCL_CUMEM_ENABLE | number | 2.18 | - | whether GPU memory comes from cuMem functions
NCCL_CUMEM_HOST_ENABLE | number | 2.23 | - | whether host memory does
NCCL_NET_GDR_LEVEL | level | 2.4 | - | up to which distance NICs reach GPU memory
NCCL_NET_GDR_C2C | number | 2.26 | - | whether they do so over a chip-to-chip link
NCCL_NET_GDR_READ | number | - | - | whether NICs read GPU memory when they send
NCCL_NET_SHARED_BUFFERS | number | 2.8 | - | whether peers share buffers
NCCL_NET_SHARED_COMMS | number | 2.12 | - | whether GPUs of a host share connections
NCCL_IGNORE_NET_MISMATCH | number | 2.30 | - | whether ranks may have different numbers of NICs
NCCL_IGNORE_COLLNET_MISMATCH | number | 2.30 | - | the same, for NICs that reduce
NCCL_SINGLE_RING_THRESHOLD | number | 2.1 | 2.3.5 | bytes up to which one ring is used
NCCL_LL_THRESHOLD | number | 2.1 | 2.5.6 | bytes up to which the low-latency protocol is used
NCCL_TREE_THRESHOLD | number | 2.4 | 2.5.6 | bytes up to which trees are used
NCCL_ALGO | algorithms | 2.5 | - | the algorithms that may be used
NCCL_PROTO | protocols | 2.5 | - | the protocols that may be used
NCCL_NVB_DISABLE | number | 2.9.9 | - | whether another GPU may not pass data on
NCCL_PXN_DISABLE | number | 2.12 | - | whether another GPU's NIC may not be used
NCCL_P2P_PXN_LEVEL | number 0-2 | 2.12 | - | when send and receive use another GPU's NIC
NCCL_PXN_C2C | number | 2.27 | - | whether they do so over a chip-to-chip link
NCCL_RUNTIME_CONNECT | number | 2.22 | - | whether peers connect when first needed
NCCL_GRAPH_REGISTER | number | 2.11 | - | whether CUDA graphs register user buffers
NCCL_LOCAL_REGISTER | number | 2.19 | - | whether user buffers may be registered
NCCL_LEGACY_CUDA_REGISTER | number | 2.24 | - | whether memory of cudaMalloc may be
NCCL_WIN_ENABLE | number | 2.27 | - | whether memory windows may be registered
NCCL_SET_STACK_SIZE | number | 2.9 | - | whether kernels reserve their stack at once
NCCL_GRAPH_MIXING_SUPPORT | number | 2.13 | - | whether graphs and other calls may overlap
NCCL_GRAPH_STREAM_ORDERING | number | 2.30.7 | - | whether NCCL orders kernels in graphs
NCCL_DMABUF_ENABLE | number | 2.13 | - | whether NICs reach GPU memory through dma-buf
NCCL_P2P_NET_CHUNKSIZE | number | 2.14 | - | bytes of a message of send and receive
NCCL_P2P_LL_THRESHOLD | number | 2.14 | - | bytes up to which they use the low-latency protocol
NCCL_ALLOC_P2P_NET_LL_BUFFERS | number | 2.14 | - | whether each connection has buffers for it
NCCL_COMM_BLOCKING | number 0-1 | 2.14 | - | whether calls may block
NCCL_CGA_CLUSTER_SIZE | number 0-8 | 2.15 | - | blocks in a cluster
NCCL_MAX_CTAS | number | 2.17 | - | the most blocks
NCCL_MIN_CTAS | number | 2.17 | - | the fewest blocks
NCCL_NVLS_ENABLE | number 0-2 | 2.17 | - | whether NVSwitch may reduce
NCCL_IB_MERGE_NICS | number | 2.20 | - | whether the ports of a NIC count as one
NCCL_NET_MERGE_POLICY | one-of ALL RAIL | 2.30.5 | - | which NICs may be merged
NCCL_MNNVL_ENABLE | number 0-2 | 2.21 | - | whether NVLink between hosts is used
NCCL_MNNVL_UUID | number | 2.25 | - | the identity of such a domain
NCCL_MNNVL_CLIQUE_ID | number | 2.23 | - | the part of it that a rank is in
NCCL_RAS_ENABLE | number | 2.24 | - | whether a job answers questions about its health
NCCL_RAS_ADDR | text | 2.24 | - | where it answers
NCCL_RAS_TIMEOUT_FACTOR | number | 2.24 | - | by how much its timeouts are stretched
NCCL_LAUNCH_ORDER_IMPLICIT | number | 2.26 | - | whether the order of calls orders communicators
NCCL_LAUNCH_RACE_FATAL | number | 2.26 | - | whether threads that race in it are an error
NCCL_IPC_USE_ABSTRACT_SOCKET | number | 2.29 | - | whether processes of a host meet without a file
NCCL_SYM_GIN_KERNELS_ENABLE | number | 2.29.7 | - | whether kernels may start network traffic
"""
