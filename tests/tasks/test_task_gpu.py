"""On a GPU: models of tasks learn as on a CPU, from batches that are sent ahead."""

import pytest
import torch
from lightning.fabric import Fabric
from small_tasks import EXAMPLES, fabric, make_fitted_task, write_elmo

from elmo.kernels.exact_float32 import exact_float32
from elmo.tasks.task_trainable import TaskTrainingJob
from elmo.train.prefetch import prefetched

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
# Twelve: later on, learning to answer makes a thousand times as much of a rounding.
STEPS = 12


def losses(folder, examples, where, **settings):
    """Give the losses of some steps without anything random."""
    trained = make_fitted_task(folder, examples, examples, **settings)
    work = TaskTrainingJob(trained, examples, examples).make_trainable(where)
    batches = prefetched(work.batches(0), 4)
    found = [work.step(batch, n).losses for n, batch in zip(range(STEPS), batches, strict=False)]
    batches.close()
    return torch.cat(found).tolist()


@pytest.mark.parametrize("task", list(EXAMPLES))
@pytest.mark.parametrize("use", ["frozen", "tuned"])
def test_losses_of_the_cpu(tmp_path, task, use):
    settings = {"task": task, "model": write_elmo(tmp_path), "use": use, "elmo_dropout": 0.0}
    gpu = Fabric(accelerator="cuda", devices=1)
    with exact_float32():
        expected = losses(tmp_path / "cpu", EXAMPLES[task], fabric(), **settings)
        found = losses(tmp_path / "gpu", EXAMPLES[task], gpu, **settings)
    assert found == pytest.approx(expected, rel=1e-3)
