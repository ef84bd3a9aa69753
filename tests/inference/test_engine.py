"""Tests of calls of an engine with weights that are not those of the model."""

import threading

import torch
from conftest import TINY, random_model

from elmo.embed.embedder import ELMo
from elmo.inference.engine import Engine


def test_calls_with_converted_weights_take_turns_and_leave_those_of_the_model():
    bilm = ELMo(random_model(TINY)).network.bilm
    own = dict(bilm.named_parameters())
    engines = [Engine.compile(own, dtype) for dtype in (torch.bfloat16, torch.float64)]
    is_inside, may_leave = threading.Event(), threading.Event()
    seen = []

    def first(module):
        is_inside.set()
        assert may_leave.wait(10)
        return next(module.parameters()).dtype

    def second(module):
        seen.append(next(module.parameters()).dtype)

    results = []
    threads = [
        threading.Thread(target=lambda: results.append(engines[0].call(bilm, first))),
        threading.Thread(target=lambda: engines[1].call(bilm, second)),
    ]
    threads[0].start()
    assert is_inside.wait(10)
    threads[1].start()
    threads[1].join(0.1)
    assert not seen
    may_leave.set()
    for thread in threads:
        thread.join(10)
    assert (results, seen) == ([torch.bfloat16], [torch.float64])
    assert all(value is own[name] for name, value in bilm.named_parameters())
