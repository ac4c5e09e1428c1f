"""Sketches of tensors: small enough to send, good enough to compare between ranks.

A sketch holds an exact digest of the bits, the norm, and a few random projections. The
projection is linear: the sketch of a mean is the mean of the sketches. Source: Johnson and
Lindenstrauss, Extensions of Lipschitz mappings into a Hilbert space (1984).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import msgspec
import torch

from ddpcheck.measures.sketch import PROJECTIONS, Sketch

CHUNK = 1 << 16
_INTEGER_OF_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# An odd multiplier makes x -> x * m a permutation of 64-bit integers (Knuth, TAOCP 3, 6.4).
_GOLDEN = -7046029254386353131


def sketch_all(named: Iterable[tuple[str, torch.Tensor | None]]) -> dict[str, Sketch]:
    """Return the sketch of each tensor by name; a tensor that is None is left out."""
    return {name: sketch(tensor) for name, tensor in named if tensor is not None}


@torch.no_grad()
def sketch(tensor: torch.Tensor) -> Sketch:
    """Return the sketch of a tensor of any shape and dtype, computed on its device."""
    flat = _in_real_numbers(tensor.detach()).reshape(-1)
    rows = _in_rows(flat.double())
    turned = (rows @ _normals(str(flat.device))[: rows.shape[1]]) * _signs(
        len(rows), str(flat.device)
    )
    values = torch.cat([rows.norm().reshape(1), turned.sum(dim=0)]).tolist()
    return Sketch(_digest(flat), values[0], tuple(values[1:]))


def digest_of(sketches: Sequence[Sketch]) -> str:
    """Return one digest for all of these."""
    joined = msgspec.json.encode([each.digest for each in sketches])
    return f"{hash_bytes(joined):016x}"


def hash_bytes(data: bytes) -> int:
    """Return a 64-bit hash of the bytes, the same in every process."""
    from hashlib import blake2b

    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def _in_real_numbers(tensor: torch.Tensor) -> torch.Tensor:
    dense = tensor if tensor.layout is torch.strided else tensor.to_dense()
    return torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense


def _in_rows(flat: torch.Tensor) -> torch.Tensor:
    if len(flat) < CHUNK:
        return flat.reshape(1, -1)
    padding = -len(flat) % CHUNK
    return torch.nn.functional.pad(flat, (0, padding)).reshape(-1, CHUNK)


def _digest(flat: torch.Tensor) -> str:
    # Integer sums wrap and have no rounding: the same in any order, on any device.
    bits = flat.contiguous().view(_INTEGER_OF_SIZE[flat.element_size()]).to(torch.int64)
    places = torch.arange(1, len(bits) + 1, device=bits.device, dtype=torch.int64)
    mixed = _mixed(_mixed(bits + places * _GOLDEN) + places)
    return f"{int(mixed.sum().item()) & 0xFFFFFFFFFFFFFFFF:016x}"


def _mixed(bits: torch.Tensor) -> torch.Tensor:
    """Return each 64-bit integer permuted so that every bit of it counts for every other.

    The finalizer of MurmurHash3 (A. Appleby, public domain).
    """
    for multiplier in (-49064778989728563, -4265267296055464877):
        bits = (bits ^ _right(bits)) * multiplier
    return bits ^ _right(bits)


def _right(bits: torch.Tensor) -> torch.Tensor:
    # torch shifts the sign in: a logical shift masks it off.
    return (bits >> 33) & 0x7FFFFFFF


@cache
def _normals(device: str) -> torch.Tensor:
    """Return normal variates [CHUNK, PROJECTIONS], float64, the same in every process."""
    generator = torch.Generator("cpu").manual_seed(0)
    values = torch.randn(
        (CHUNK, PROJECTIONS), generator=generator, dtype=torch.float64, device="cpu"
    )
    return values.to(device)


@cache
def _signs(count: int, device: str) -> torch.Tensor:
    """Return signs [count, PROJECTIONS], +1 or -1, float64, the same in every process."""
    generator = torch.Generator("cpu").manual_seed(1)
    bits = torch.randint(0, 2, (count, PROJECTIONS), generator=generator, device="cpu")
    return (bits.double() * 2 - 1).to(device)
