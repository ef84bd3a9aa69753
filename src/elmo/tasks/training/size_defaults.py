"""Defaults that depend on the size of the training set: batch size and number of warm-up steps.

With the defaults for large training sets, a run on a few dozen examples would end during warm-up.
"""

import math
from dataclasses import replace
from pathlib import Path

from elmo.tasks.registry.task_config import TaskConfig
from elmo.train.run_folder import recorded_config
from elmo.train.run_plan import default_warmup

MAX_BATCH_SIZE, MIN_BATCH_SIZE = 32, 2
# Minimum number of steps per epoch, if the batches are not at their minimum size.
STEPS_PER_EPOCH = 25
MAX_WARMUP_STEPS = 50


def with_size_defaults(config: TaskConfig, n_examples: int) -> TaskConfig:
    """Set the batch size and the number of warm-up steps, if the config does not contain them.

    A run that is resumed keeps its values, also if it is made longer. `n_examples` counts the
    training examples after subsampling.
    """
    examples = config.examples
    batch_size, warmup = config.batch_size, config.optimizer.warmup_steps
    if recorded := recorded_config(Path(config.out), TaskConfig):
        batch_size = recorded.batch_size if batch_size is None else batch_size
        warmup = recorded.optimizer.warmup_steps if warmup is None else warmup
    if examples.keep_steps:
        n_examples = round(n_examples / examples.fraction)
    if batch_size is None:
        batch_size = min(MAX_BATCH_SIZE, max(MIN_BATCH_SIZE, n_examples // STEPS_PER_EPOCH))
    if warmup is None:
        n_steps = config.run.epochs * math.ceil(n_examples / batch_size)
        if config.run.max_steps is not None:
            n_steps = min(n_steps, config.run.max_steps)
        if not examples.keep_steps:
            # The recorded number is that of the whole training set.
            n_steps /= examples.fraction
        warmup = default_warmup(n_steps, MAX_WARMUP_STEPS)
    optimizer = replace(config.optimizer, warmup_steps=warmup)
    return replace(config, batch_size=batch_size, optimizer=optimizer)
