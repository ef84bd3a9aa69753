"""What a model is known by: a digest of everything that decides its vectors."""

import hashlib
import json

import torch

from elmo.config.serialization import to_dict
from elmo.formats.pretrained import Pretrained


def fingerprint(pretrained: Pretrained) -> str:
    """Give the SHA-256 of dials, dictionaries and weights; names of files are no part of it."""
    digest = hashlib.sha256()
    tables = [dict(table or {}) for table in (pretrained.characters, pretrained.words)]
    plain = [to_dict(pretrained.config), *tables]
    digest.update(json.dumps(plain, sort_keys=True).encode())
    for name, tensor in sorted(pretrained.weights.items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # As bytes: NumPy has no name for some types of tensors.
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
