"""What a script does with GPUs: which it names, and when it chooses one."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.measures.script import Event, Place, Script, read

MASK = "CUDA_VISIBLE_DEVICES"
# Libraries that import torch, which may ask the driver for GPUs as it is imported.
TORCH_FAMILY = frozenset(
    {
        *("torch", "torchvision", "torchaudio", "lightning", "pytorch_lightning", "transformers"),
        *("accelerate", "deepspeed", "kornia", "timm", "mmcv", "mmengine", "fairseq", "diffusers"),
    }
)
# What makes the driver read the mask, once and for all: a context, or only cuInit.
# Tried one by one with torch 2.11 on two GPUs; of torch.cuda's other functions device_count(),
# memory_allocated(), empty_cache(), Event() and the seeds leave the driver alone.
TOUCHES_CUDA = frozenset(
    {
        *("torch.amp.GradScaler", "torch.cuda.amp.GradScaler"),
        *("torch.cuda.is_available", "torch.cuda.init", "torch.cuda.set_device"),
        *("torch.cuda.current_device", "torch.cuda.current_stream", "torch.cuda.synchronize"),
        *("torch.cuda.get_device_name", "torch.cuda.get_device_properties"),
        *("torch.cuda.get_device_capability", "torch.cuda.mem_get_info", "torch.cuda.Stream"),
        *("torch.cuda.is_bf16_supported", "torch.cuda.reset_peak_memory_stats"),
    }
)
# What chooses the GPU of a process.
BINDS = frozenset(
    {
        *("torch.cuda.set_device", "torch.cuda.device", "torch.accelerator.set_device_index"),
        *("torch.accelerator.set_device_idx", "torch.set_default_device"),
    }
)
INIT = "torch.distributed.init_process_group"
BARRIER = "torch.distributed.barrier"
# A branch that asks one of these is for one process, or for some of the ranks.
ASKS_WHO = re.compile(
    r"rank|main_process|is_main|is_master|master|distributed|world|ddp|gpus|gpu_count|num_gpu"
    r"|device_count|nproc|parallel|single|debug|spawn|args\.gpu",
    re.IGNORECASE,
)
NUMBERED = re.compile(r"cuda:\d+")
DEVICE_WORDS = frozenset({"device", "map_location", "device_id", "main_device", "dev"})


class Reading(msgspec.Struct, frozen=True):
    """Places in the script of a rank, and how many GPUs the rank sees (0: on a CPU)."""

    host: str
    script: str
    places: tuple[Place, ...]
    on_gpu: bool
    gpus: int
    machine: str = ""


def with_a_choice(
    facts: Mapping[int, Reading],
) -> dict[tuple[str, tuple[Place, ...], bool], list[int]]:
    """Return the ranks that have such places and, like others on their host, a choice of GPUs.

    They are grouped by script, places, and whether they work on a GPU.
    """
    mates = Counter((own.host, own.machine) for own in facts.values())
    told: dict[tuple[str, tuple[Place, ...], bool], list[int]] = {}
    for rank, own in sorted(facts.items()):
        has_mates = mates[own.host, own.machine] > 1
        if own.places and has_mates and not (own.on_gpu and own.gpus == 1):
            told.setdefault((own.script, own.places, own.on_gpu), []).append(rank)
    return told


def masks_set_late(source: str) -> list[Place]:
    """Return where the script sets its mask of GPUs too late.

    The note tells after what: ``line 3: import torch``; it begins with ``CUDA`` where CUDA was
    in use already.
    """
    script = read(source if MASK in source else "")
    found: dict[int, Place] = {}
    for path in script.paths:
        for at, event in enumerate(path):
            if _sets_mask(script, event) and (note := _lateness(script, path[:at], event)):
                place = event.place(note)
                known = found.get(place.line)
                found[place.line] = known if known and known.note.startswith("CUDA") else place
    return [found[line] for line in sorted(found)]


def sets_mask(source: str) -> bool:
    """Return whether the script sets its mask of GPUs at all."""
    script = read(source if MASK in source else "")
    return any(_sets_mask(script, event) for path in script.paths for event in path)


def loads_without_map_location(source: str) -> list[Place]:
    """Return where torch.load puts tensors onto the GPU that they were saved from."""
    script = read(source)
    return _places(
        event
        for path in script.paths
        for event in path
        if script.called(event) == "torch.load" and _lacks_map_location(event.node)
        if not ASKS_WHO.search(event.condition)
    )


def barriers_before_device(source: str) -> list[Place]:
    """Return barriers of an NCCL group that no call before them has told its GPU."""
    script = read(source)
    return _places(event for path in script.paths for event in _unbound_barriers(script, path))


def hard_coded_devices(source: str) -> list[Place]:
    """Return where the script names a GPU by a fixed number, for all ranks alike."""
    script = read(source)
    events = [event for path in script.paths for event in path]
    chosen = {name for event in events for name in _assigned(event.node, fixed=False)}
    return _places(
        event
        for event in events
        if _passes_fixed_gpu(script, event.node)
        # A default that another line replaces is none.
        or not chosen.issuperset(_assigned(event.node, fixed=True))
        if not ASKS_WHO.search(event.condition)
    )


def _places(events: Iterator[Event]) -> list[Place]:
    found = {place.line: place for place in (event.place() for event in events)}
    return [found[line] for line in sorted(found)]


def _lateness(script: Script, before: list[Event], event: Event) -> str:
    earlier = [each for each in before if not each.excludes(event)]
    for each in earlier:
        if _touches_cuda(script, each):
            return f"CUDA in use since {_told(each)}"
    return next((_told(each) for each in earlier if _imports_torch(each.node)), "")


def _told(event: Event) -> str:
    place = event.place()
    return f"line {place.line}: {place.text}"


def _sets_mask(script: Script, event: Event) -> bool:
    node = event.node
    if isinstance(node, ast.Assign | ast.Delete):
        return any(
            isinstance(target, ast.Subscript)
            and script.name_of(target.value) == "os.environ"
            and _is(target.slice, MASK)
            for target in node.targets
        )
    name = script.called(event)
    if not isinstance(node, ast.Call) or name.rpartition(".")[0] not in ("os", "os.environ"):
        return False
    if name in ("os.putenv", "os.unsetenv", "os.environ.setdefault", "os.environ.pop"):
        return bool(node.args) and _is(node.args[0], MASK)
    keys = [key for each in node.args if isinstance(each, ast.Dict) for key in each.keys]
    named = any(each.arg == MASK for each in node.keywords)
    return name == "os.environ.update" and (named or any(_is(key, MASK) for key in keys))


def _touches_cuda(script: Script, event: Event) -> bool:
    node = event.node
    if not isinstance(node, ast.Call):
        return False
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    placed = [each.value for each in node.keywords if each.arg == "device"]
    placed += node.args[:1] if method == "to" else []
    on_gpu = any(_text(each).startswith("cuda") for each in placed)
    name = script.called(event)
    return name in TOUCHES_CUDA or _is_cuda_method(method, name) or on_gpu


def _imports_torch(node: ast.AST) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module or ""]
    return any(name.partition(".")[0] in TORCH_FAMILY for name in names)


def _lacks_map_location(call: ast.AST) -> bool:
    if not isinstance(call, ast.Call) or any(isinstance(each, ast.Starred) for each in call.args):
        return False
    given = {each.arg for each in call.keywords}
    return len(call.args) == 1 and given.isdisjoint({"map_location", None})


def _unbound_barriers(script: Script, path: list[Event]) -> Iterator[Event]:
    joined: list[Event] = []
    for event in path:
        name = script.called(event)
        if name in BINDS:
            return
        if isinstance(event.node, ast.Call) and name == INIT:
            told = {each.arg: each.value for each in event.node.keywords}
            backend = [*event.node.args[:1], *([told["backend"]] if "backend" in told else [])]
            if not {"device_id", None}.isdisjoint(told) or any(map(_is_cpu_backend, backend)):
                return
            joined.append(event)
        elif isinstance(event.node, ast.Call) and name == BARRIER:
            told_devices = any(each.arg in ("device_ids", None) for each in event.node.keywords)
            if not told_devices and any(not each.excludes(event) for each in joined):
                yield event


def _is_cpu_backend(backend: ast.AST) -> bool:
    return _text(backend) in ("gloo", "mpi", "ucc", "xccl", "hccl")


def _assigned(node: ast.AST, *, fixed: bool) -> Iterator[str]:
    """Yield the names of devices that a statement assigns a fixed GPU to, or something else."""
    if isinstance(node, ast.Assign) and _is_fixed(node.value) == fixed:
        for target in node.targets:
            name = ast.unparse(target)
            if name.rpartition(".")[2] in DEVICE_WORDS:
                yield name


def _passes_fixed_gpu(script: Script, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    name = script.name_of(node.func)
    keywords = {each.arg: each.value for each in node.keywords}
    passed = [keywords[word] for word in DEVICE_WORDS & keywords.keys()]
    numbered: list[ast.expr] = []
    if name in ("torch.cuda.set_device", "torch.cuda.device") or _is_cuda_method(method, name):
        numbered = node.args[:1]
    elif name == "torch.device":
        numbered = node.args[1:2] if node.args and _is(node.args[0], "cuda") else []
    elif name.rpartition(".")[2] in ("DistributedDataParallel", "DDP"):
        numbered = _only_element(keywords.get("device_ids"))
    if method == "to" or numbered or name == "torch.device":
        passed += node.args[:1]
    return any(map(_is_fixed, passed)) or any(map(_is_number, numbered))


def _is_cuda_method(method: str, name: str) -> bool:
    return method == "cuda" and not name.startswith("torch.")


def _only_element(value: ast.expr | None) -> list[ast.expr]:
    return value.elts if isinstance(value, ast.List) and len(value.elts) == 1 else []


def _is_fixed(value: ast.AST) -> bool:
    """Return whether a value is a GPU's number in text, whatever else a condition may choose."""
    if isinstance(value, ast.IfExp):
        asks = ASKS_WHO.search(ast.unparse(value.test))
        return not asks and (_is_fixed(value.body) or _is_fixed(value.orelse))
    return bool(NUMBERED.fullmatch(_text(value)))


def _is(node: ast.AST | None, text: str) -> bool:
    return node is not None and _text(node) == text


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int
