"""Short digests: equal for what is equal, on every rank."""

from __future__ import annotations

from hashlib import blake2b


def short_digest(data: bytes | str) -> str:
    """Return 16 hexadecimal digits for a text or bytes."""
    return blake2b(data.encode() if isinstance(data, str) else data, digest_size=8).hexdigest()
