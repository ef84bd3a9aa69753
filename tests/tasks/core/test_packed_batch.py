"""Tests of packed batches, compared with PyTorch's `pack_padded_sequence`."""

import pytest
import torch
from small_tasks import with_padding
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo.tasks.core.packed_batch import PackedBatch


@pytest.mark.parametrize("lengths", [(1,), (3, 1, 4), (2, 2, 2), (1, 5, 5, 2, 3)])
@pytest.mark.parametrize("extra_padding", [0, 2])
def test_lstm_output_is_the_same_as_with_pytorch_packing(lengths, extra_padding):
    torch.manual_seed(0)
    width = max(lengths) + extra_padding
    lstm = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
    x = torch.randn(len(lengths), width, 3, requires_grad=True)
    layout = with_padding(PackedBatch.from_lengths(lengths), extra_padding)
    assert layout.mask.sum(dim=1).tolist() == list(lengths)
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=width)
    output = layout.unpack(lstm(layout.pack(x))[0])
    torch.testing.assert_close(output, expected)
    weights = torch.randn_like(output)
    gradients = [torch.autograd.grad((y * weights).sum(), x)[0] for y in (output, expected)]
    torch.testing.assert_close(*gradients)
    assert not gradients[0][~layout.mask].any()


def test_padded_batch_is_as_long_as_the_longest_text():
    assert PackedBatch.from_lengths([2, 5, 1]).mask.shape == (3, 5)


def test_packed_words_are_ordered_by_time_step_and_text_length():
    layout = PackedBatch.from_lengths([1, 3])
    assert layout.mask.tolist() == [[True, False, False], [True] * 3]
    assert layout.batch_sizes.tolist() == [2, 1, 1]
    assert layout.positions.tolist() == [3, 0, 4, 5]
