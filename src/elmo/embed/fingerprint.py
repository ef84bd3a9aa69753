"""Model fingerprint: a hash of everything that determines the vectors of a model."""

import hashlib
import json

import torch

from elmo.config import ModelConfig
from elmo.config.renamed import original_names
from elmo.config.serialization import to_dict
from elmo.formats.pretrained import Pretrained


def fingerprint(pretrained: Pretrained) -> str:
    """Return the SHA-256 hash of a model's config, vocabularies and weights.

    The hash does not depend on file names, and is unaffected by the renaming of config fields.
    """
    digest = hashlib.sha256()
    tables = [dict(table or {}) for table in (pretrained.characters, pretrained.words)]
    config = original_names(ModelConfig, to_dict(pretrained.config))
    settings = [config, *tables]
    digest.update(json.dumps(settings, sort_keys=True).encode())
    for name, tensor in sorted(pretrained.weights.items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # As bytes, because NumPy lacks some dtypes of PyTorch.
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
