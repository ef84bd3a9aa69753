"""Tests of task model training on a GPU with prefetched batches, compared with the CPU."""

import pytest
import torch
from lightning.fabric import Fabric
from small_tasks import EXAMPLES, fabric, make_fitted_task, write_elmo

from elmo.kernels.exact_float32 import exact_float32
from elmo.tasks.training.task_trainable import TaskTrainingJob
from elmo.train.prefetch import prefetched

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
# Rounding differences grow a thousandfold in later steps of question answering.
STEPS = 12


def losses(folder, examples, device_fabric, **settings):
    """Train for a few steps without dropout and return the losses."""
    fitted = make_fitted_task(folder, examples, examples, **settings)
    trainable = TaskTrainingJob(fitted, examples, examples).make_trainable(device_fabric)
    batches = prefetched(trainable.batches(0), 4)
    steps = zip(range(STEPS), batches, strict=False)
    step_losses = [trainable.step(batch, number).losses for number, batch in steps]
    batches.close()
    return torch.cat(step_losses).tolist()


@pytest.mark.parametrize("task", list(EXAMPLES))
@pytest.mark.parametrize("use", ["frozen", "tuned"])
def test_training_losses_on_gpu_equal_losses_on_cpu(tmp_path, task, use):
    settings = {"task": task, "model": write_elmo(tmp_path), "use": use, "elmo_dropout": 0.0}
    gpu = Fabric(accelerator="cuda", devices=1)
    with exact_float32():
        expected = losses(tmp_path / "cpu", EXAMPLES[task], fabric(), **settings)
        actual = losses(tmp_path / "gpu", EXAMPLES[task], gpu, **settings)
    assert actual == pytest.approx(expected, rel=1e-3)
