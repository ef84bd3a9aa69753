"""Copies of a module that compute with other weights."""

from collections.abc import Mapping
from typing import TypeVar

from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def with_weights(module: M, weights: Mapping[str, Tensor]) -> M:
    """Return a copy of a module that has the given weights, by name, and shares everything else.

    `torch.func.functional_call` would put them into the module itself, where other threads that
    use the module at the same time would compute with them.

    The copy has the other weights, the hooks and the settings of the module. It is made for a
    single call, because later changes of the settings do not reach it.
    """
    replaced = {
        id(value): weights[name] for name, value in module.named_parameters() if name in weights
    }
    return _copy(module, replaced)


def _copy(module: M, replaced: Mapping[int, Tensor]) -> M:
    """Return a shallow copy of a module, with weights replaced by the identity of the originals."""
    copied = module.__new__(type(module))
    vars(copied).update(
        vars(module),
        # Found by identity, not by name: a tied weight has several names.
        _parameters={
            name: value if value is None else replaced.get(id(value), value)
            for name, value in module._parameters.items()
        },
        _modules={
            name: child if child is None else _copy(child, replaced)
            for name, child in module._modules.items()
        },
        # The function that `module.compile` made calls the original.
        _compiled_call_impl=None,
    )
    return copied
