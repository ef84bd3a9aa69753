"""Tests of weight averages."""

import pytest
import torch
from torch import nn

from elmo.config.language_models import AveragingConfig
from elmo.lab.weight_averages import WeightAverages


def averages(**options):
    parameter = nn.Parameter(torch.zeros(2))
    return parameter, WeightAverages([parameter], AveragingConfig(**options))


def step(parameter, average, value):
    average.before_step()
    with torch.no_grad():
        parameter.fill_(value)
    average.update()


def test_moving_average_follows_its_formula():
    parameter, average = averages(average="ema", average_decay=0.5)
    expected = 0.0
    for number, value in enumerate([1.0, 3.0, -2.0]):
        step(parameter, average, value)
        decay = min(0.5, (1 + number) / (10 + number))
        expected = decay * expected + (1 - decay) * value
        assert average.values[0][0] == pytest.approx(expected)


def test_triggered_average_is_the_weights_before_the_trigger():
    parameter, average = averages(average="triggered", average_patience=2)
    for value, loss in [(1.0, 3.0), (2.0, 2.0), (3.0, 2.5)]:
        step(parameter, average, value)
        average.add_loss(loss)
        assert average.values[0][0] == value
    assert not average.is_triggered


def test_triggered_average_is_the_mean_of_later_steps():
    parameter, average = averages(average="triggered", average_patience=2)
    for loss in [3.0, 2.0, 2.5, 2.0]:
        average.add_loss(loss)
    assert average.is_triggered
    for value in [1.0, 2.0, 6.0]:
        step(parameter, average, value)
    assert average.values[0][0] == pytest.approx(3.0)


def test_mean_continues_although_the_loss_improves_again():
    parameter, average = averages(average="triggered", average_patience=1)
    for loss in [1.0, 2.0]:
        average.add_loss(loss)
    step(parameter, average, 4.0)
    average.add_loss(0.5)
    step(parameter, average, 2.0)
    assert average.values[0][0] == pytest.approx(3.0)


def test_applied_replaces_weights_in_place_and_restores_them():
    parameter, average = averages(average="ema", average_decay=0.9)
    step(parameter, average, 1.0)
    address = parameter.data_ptr()
    with average.applied():
        assert parameter[0] == average.values[0][0]
    assert parameter[0] == 1.0
    assert parameter.data_ptr() == address


def test_weights_are_restored_after_an_error():
    parameter, average = averages(average="ema")
    step(parameter, average, 1.0)
    with pytest.raises(KeyError), average.applied():
        raise KeyError
    assert parameter[0] == 1.0


def test_state_continues_equally():
    parameter, average = averages(average="triggered", average_patience=1)
    average.add_loss(1.0)
    average.add_loss(1.0)
    step(parameter, average, 1.0)
    other_parameter, other = averages(average="triggered", average_patience=1)
    other.load_state_dict(average.state_dict())
    for value in [5.0, 6.0]:
        step(parameter, average, value)
        step(other_parameter, other, value)
    assert torch.equal(average.values[0], other.values[0])


def test_average_is_the_weights_again_after_returning_to_a_state_before_the_mean():
    parameter, average = averages(average="triggered", average_patience=1)
    before = average.state_dict()
    before["values"] = [value.clone() for value in average.values]
    for loss in [1.0, 1.0]:
        average.add_loss(loss)
    for value in [1.0, 2.0]:
        step(parameter, average, value)
    average.load_state_dict(before)
    step(parameter, average, 5.0)
    assert average.values[0][0] == 5.0
