"""Language model training: the `pretrain` and `finetune` commands."""

from elmo.lazy import fetch

__all__ = ["TrainResult", "finetune", "pretrain"]

_HOMES = {
    "TrainResult": "elmo.train.train_result",
    "finetune": "elmo.train.finetune_model",
    "pretrain": "elmo.train.pretrain_model",
}


def __getattr__(name: str) -> object:
    return fetch(name, _HOMES, __name__)
