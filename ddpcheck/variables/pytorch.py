"""PyTorch's variables that steer training over several ranks.

Source: ProcessGroupNCCL.hpp, NCCLUtils.cpp, FlightRecorder.hpp, debug.cpp and Utils.hpp of
torch/csrc/distributed/c10d, AllocatorConfig.h, torch/distributed/elastic and torchrun's manual
(torch 2.4 to 2.13). A line is: name, kind of value, version it came with, version it went with,
meaning.
"""

DOCUMENTED = """
TORCH_NCCL_ASYNC_ERROR_HANDLING | torch-number | 2.2 | - | what happens when a collective fails
TORCH_NCCL_BLOCKING_WAIT | torch-bool | 2.2 | - | whether the CPU waits for each collective
TORCH_NCCL_DESYNC_DEBUG | torch-bool | 2.2 | - | whether a timeout reports who was where
TORCH_NCCL_ENABLE_TIMING | torch-bool | 2.2 | - | whether each collective is timed
TORCH_NCCL_ENABLE_MONITORING | torch-bool | 2.2 | - | whether a stuck watchdog ends the process
TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC | torch-number | 2.2 | - | after how long a watchdog is stuck
TORCH_NCCL_DUMP_ON_TIMEOUT | torch-bool | 2.2 | - | whether a timeout dumps the Flight Recorder
TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC | torch-number | 2.2 | - | how long such a dump may take
TORCH_NCCL_COORD_CHECK_MILSEC | torch-number | 2.2 | - | how often other ranks are asked for a dump
TORCH_NCCL_TRACE_BUFFER_SIZE | torch-number | 2.2 | - | how many collectives are remembered
TORCH_NCCL_TRACE_CPP_STACK | torch-bool | 2.4 | - | whether they are with C++ stacks
TORCH_NCCL_DEBUG_INFO_TEMP_FILE | path | 2.2 | - | the dump's file name without the rank
TORCH_NCCL_DEBUG_INFO_PIPE_FILE | path | 2.4 | - | a pipe that asks for a dump
TORCH_NCCL_EXTRA_DUMP_ON_EXEC | torch-bool | - | - | whether exceptions dump, too
TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN | torch-bool | 2.4 | - | whether a bad end logs stacks
TORCH_NCCL_RETHROW_CUDA_ERRORS | torch-bool | 2.4 | - | whether the watchdog raises CUDA's errors
TORCH_NCCL_PROPAGATE_ERROR | torch-bool | - | - | whether one rank's error ends all
TORCH_NCCL_CUDA_EVENT_CACHE | torch-bool | - | - | whether CUDA events are kept
TORCH_NCCL_NAN_CHECK | torch-bool | 2.4 | - | whether each collective looks for NaN
TORCH_NCCL_HIGH_PRIORITY | torch-bool | 2.4 | - | whether NCCL's streams come first
TORCH_NCCL_BCAST_UNIQUEID | torch-bool | - | - | how the identity of a group is spread
TORCH_NCCL_RANKS_PER_ROOT | torch-number | - | - | how many ranks meet at one root
TORCH_NCCL_AVOID_RECORD_STREAMS | text | 2.2 | - | whether tensors are kept without record_stream
TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK | torch-bool | 2.2 | - | whether memory is registered
TORCH_NCCL_USE_COMM_NONBLOCKING | text | 2.2 | - | whether groups start without blocking
TORCH_NCCL_NONBLOCKING_TIMEOUT | text | 2.2 | - | how long such a start may take
TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING | torch-bool | - | - | whether it warns
TORCH_FR_BUFFER_SIZE | torch-number | - | - | how many collectives are remembered
TORCH_FR_CPP_STACK | torch-bool | - | - | whether they are with C++ stacks
TORCH_FR_DUMP_TEMP_FILE | path | - | - | the dump's file name without the rank
TORCH_FR_DUMP_DYNAMIC_FILE_NAME | text | - | - | whether that name may change
TORCH_DISTRIBUTED_DEBUG | one-of-or-fail OFF INFO DETAIL | 1.9 | - | how much it checks and logs
TORCH_CPP_LOG_LEVEL | one-of INFO WARNING ERROR FATAL 0 1 2 3 | 1.11 | - | how much torch's C++ logs
TORCH_SHOW_CPP_STACKTRACES | text | - | - | whether errors come with C++ stacks
TORCH_DISABLE_ADDR2LINE | text | - | - | whether these stacks are without lines
TORCH_SYMBOLIZE_MODE | text | - | - | how these stacks get their names
TORCH_GLOO_LAZY_INIT | text | - | - | whether gloo connects when first needed
TORCH_DIST_INIT_BARRIER | text | - | - | whether making a group ends in a barrier
TORCH_DISTRIBUTED_USE_TORCHCOMMS | text | - | - | whether torchcomms carries the groups
TORCH_DISTRIBUTED_COMPILE_ON_ONE_RANK | text | - | - | whether one rank compiles for all
TORCH_DISABLE_SHARE_RDZV_TCP_STORE | text | 2.2 | - | whether the agent keeps its store to itself
TORCH_ELASTIC_SHUTDOWN_TIMEOUT | text | - | - | how long workers may take to end
TORCH_ELASTIC_WORKER_IDENTICAL | text | - | - | whether hosts may start in any order
TORCHELASTIC_RUN_ID | text | - | - | the job's name
TORCHELASTIC_RESTART_COUNT | text | - | - | how often the workers were started again
TORCHELASTIC_MAX_RESTARTS | text | - | - | how often they may be
TORCHELASTIC_USE_AGENT_STORE | text | - | - | whether the agent's store serves the workers
TORCHELASTIC_ERROR_FILE | path | - | - | where a worker leaves its exception
TORCHELASTIC_ENABLE_FILE_TIMER | text | - | - | whether a named pipe times the workers
TORCHELASTIC_TIMER_FILE | path | - | - | that pipe
TORCHELASTIC_HEALTH_CHECK_PORT | port | - | - | where the agent says that it is alive
TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE | text | - | - | what precedes each line of a worker
TORCHELASTIC_SIGNALS_TO_HANDLE | text | - | - | the signals that the agent hands on
TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT | text | - | - | how long a worker may hang
TORCHELASTIC_ETCD_BINARY_PATH | path | - | - | where etcd is
TORCH_SYMMMEM_IMPLICIT_POOL | text | - | - | where symmetric memory comes from
TORCH_SYMMMEM_NBLOCKS | text | - | - | the blocks of its kernels
TORCH_SYMM_MEM_ENABLE_NATIVE_ASYNC_TP | text | - | - | whether they overlap tensor parallelism
TORCH_PROFILER_ENABLE_COLLECTIVE_PROFILING | text | - | - | whether the profiler sees collectives
TORCH_COMPILE_DISABLE | text | - | - | whether torch.compile does nothing
TORCHDYNAMO_DISABLE | text | - | - | whether torch.compile does nothing
TORCH_ALLOW_TF32_CUBLAS_OVERRIDE | text | - | - | whether matrix products may use TF32
TORCH_DEVICE_BACKEND_AUTOLOAD | text | - | - | whether plug-ins for devices are loaded
TORCH_USE_CUDA_DSA | text | - | - | a switch for building torch
PYTORCH_ALLOC_CONF | pairs | 2.9 | - | how GPU memory is allocated
PYTORCH_CUDA_ALLOC_CONF | pairs | - | - | how GPU memory is allocated
PYTORCH_HIP_ALLOC_CONF | pairs | - | - | the same, on ROCm
PYTORCH_NO_CUDA_MEMORY_CACHING | text | - | - | whether GPU memory is not kept for reuse
PYTORCH_NVML_BASED_CUDA_CHECK | text | - | - | whether NVML answers if there is a GPU
PYTORCH_DDP_USE_SIDE_STREAM | text | - | - | whether DDP copies inputs on a stream of their own
PYTORCH_KERNEL_CACHE_PATH | path | - | - | where compiled kernels are kept
PYTORCH_JIT | text | - | - | whether TorchScript compiles
PYTORCH_TUNABLEOP_ENABLED | text | - | - | whether tuned matrix products are used
PYTORCH_TUNABLEOP_TUNING | text | - | - | whether they are tuned
PYTORCH_TUNABLEOP_FILENAME | path | - | - | where the tuning is kept
GLOO_SOCKET_IFNAME | interfaces | - | - | the network interfaces that gloo uses
GLOO_DEVICE_TRANSPORT | text | - | - | how gloo connects
TP_SOCKET_IFNAME | interfaces | - | - | the network interfaces that RPC uses
RANK | text | - | - | the rank of this process
WORLD_SIZE | text | - | - | how many ranks there are
LOCAL_RANK | text | - | - | its rank on this host
LOCAL_WORLD_SIZE | text | - | - | how many ranks this host has
GROUP_RANK | text | - | - | the rank of this host's agent
GROUP_WORLD_SIZE | text | - | - | how many agents there are
ROLE_RANK | text | - | - | its rank among workers of its role
ROLE_WORLD_SIZE | text | - | - | how many there are of its role
ROLE_NAME | text | - | - | the role
MASTER_ADDR | text | - | - | the host where the ranks meet
MASTER_PORT | text | - | - | the port where they meet
"""

# Read by torch, or set in its images, but without a part in training over several ranks.
# Source: strings of libtorch_cpu.so and libtorch_python.so, and Python files, of torch 2.13.
UNDOCUMENTED = """
NCCL_ASYNC_ERROR_HANDLING NCCL_BLOCKING_WAIT NCCL_DESYNC_DEBUG NCCL_ENABLE_TIMING
NCCL_NONBLOCKING_TIMEOUT NCCL_USE_COMM_NONBLOCKING NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK
GLOO_ASYNC_TIMEOUT_DEBUG GLOO_DISABLE_CONNECTION_RETRIES GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER
GLOO_ENABLE_STORE_V2_API GLOO_LOG_LEVEL TP_VERBOSE_LOGGING
PYTORCH_API_USAGE_STDERR PYTORCH_BUILD_NUMBER PYTORCH_BUILD_VERSION PYTORCH_CUDA_MEMCHECK
PYTORCH_FUSION_DEBUG PYTORCH_HOME PYTORCH_JIT_DISABLE PYTORCH_JIT_ENABLE_LARGE_SOURCE_LOCATION
PYTORCH_JIT_LOG_LEVEL PYTORCH_JIT_OPT_LIMIT PYTORCH_JIT_STATS PYTORCH_JIT_TIME
PYTORCH_JIT_TYPE_VERBOSITY PYTORCH_KEEP_TMPDIR PYTORCH_MIOPEN_SUGGEST_NHWC PYTORCH_NVCC
PYTORCH_ROCM_ARCH PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK PYTORCH_TENSOREXPR PYTORCH_TEST
PYTORCH_VERSION TORCHELASTIC_VERSION TORCH_ADDR2LINE_BINARY TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT
TORCH_BLAS_PREFER_CUBLASLT TORCH_BLAS_PREFER_HIPBLASLT TORCH_CUDA_ARCH_LIST TORCH_CUDAGRAPH_GC
TORCH_CUDNN_USE_HEURISTIC_MODE_B TORCH_CUDNN_V8_API_DEBUG TORCH_CUDNN_V8_API_DISABLED
TORCH_CUDNN_V8_API_ENABLED TORCH_CUSTOM_TERMINATE TORCH_DISABLE_DEADLOCK_DETECTION
TORCH_EXTENSIONS_DIR TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD TORCH_FORCE_WEIGHTS_ONLY_LOAD TORCH_HOME
TORCH_HUB TORCH_INCLUDE_ONLY_ACTIVE TORCH_INCLUDE_STACK_TRACE TORCH_INSTALL_PREFIX
TORCH_JIT_DISABLE_NEW_EXECUTOR TORCH_LINALG_PREFER_CUSOLVER TORCH_LINALG_PREFER_HIPSOLVER
TORCH_LOGS TORCH_LOGS_FORMAT TORCH_LOGS_OUT TORCH_MODEL_ZOO TORCH_ROCM_FA_PREFER_CK
TORCH_SHOW_DISPATCH_TRACE TORCH_TRACE TORCH_USE_RTLD_GLOBAL TORCH_WARM_POOL TORCH_XPU_ARCH_LIST
"""
