"""The model's own layers."""

import pytest
import torch
from small_tasks import EXAMPLES, make_fitted_task, write_elmo

from elmo.config import TaskELMoConfig, TaskEncoderConfig
from elmo.tasks.encoder import TaskEncoder, locked_dropout
from elmo.tasks.packed_batch import PackedBatch


@pytest.mark.parametrize(
    ("place", "hidden", "width"),
    [
        ("input", 6, 12),
        ("output", 6, 12 + 10),
        ("both", 6, 12 + 10),
        ("input", 0, 7),
        ("both", 0, 7 + 10),
    ],
)
def test_widths(place, hidden, width):
    body = TaskEncoder(
        config=TaskEncoderConfig(hidden=hidden, depth=2),
        elmo=TaskELMoConfig(placement=place),
        input_dim=7,
        n_layers=3,
        elmo_dim=10,
    )
    found = body(torch.randn(2, 3, 7), PackedBatch.from_lengths([3, 1]), torch.randn(3, 2, 3, 10))
    assert found.shape == (2, 3, body.dim)
    assert body.dim == width
    assert (body.mix is None) == (place == "input")


def test_without_elmo_there_is_no_mix():
    body = TaskEncoder(
        config=TaskEncoderConfig(hidden=4), elmo=TaskELMoConfig(placement="both"), input_dim=3
    )
    assert body.mix is None
    assert body.dim == 8


@pytest.mark.parametrize("use", ["frozen", "tuned"])
@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_neighbours_and_padding_change_nothing(tmp_path, use, task):
    examples = EXAMPLES[task]
    model = write_elmo(tmp_path / "elmo")
    texts = [example.words for example in examples]
    trained = make_fitted_task(
        tmp_path / "run", examples, model=model, use=use, task=task, placement="both", depth=2
    )
    network, fields = trained.built.model.eval(), trained.built.indexer
    numbers = {name: number for number, name in enumerate(trained.labels)}
    with torch.no_grad():
        together = network.vectors(fields.batch(texts))
        backwards = network.vectors(fields.batch(texts[::-1]))
        for number, text in enumerate(texts):
            alone = network.vectors(fields.batch([text]))[0]
            torch.testing.assert_close(together[number, : len(text)], alone)
            torch.testing.assert_close(backwards[-1 - number, : len(text)], alone)
        losses = [
            network.loss(
                [fields.batch([example.words])],
                trained.task.targets([example], numbers),
            )
            for example in examples
        ]
        whole = network.loss([fields.batch(texts)], trained.task.targets(examples, numbers))
    # Of tags the mean is over words, of labels over texts.
    sizes = torch.tensor([len(t) if task == "tagging" else 1.0 for t in texts])
    torch.testing.assert_close(whole, (torch.stack(losses) * sizes).sum() / sizes.sum())


def test_locked_dropout_leaves_out_whole_features():
    torch.manual_seed(0)
    x = torch.ones(4, 6, 50)
    found = locked_dropout(x, 0.5, training=True)
    assert torch.equal(found, found[:, :1].expand_as(found))
    assert set(found.unique().tolist()) == {0.0, 2.0}
    assert len({tuple(row.tolist()) for row in found[:, 0]}) == 4
    assert locked_dropout(x, 0.5, training=False) is x
    assert locked_dropout(x, 0.0, training=True) is x


def test_dropout_is_for_training_alone():
    torch.manual_seed(0)
    config = TaskEncoderConfig(hidden=8, depth=2, input_dropout=0.5, dropout=0.5)
    body = TaskEncoder(config=config, elmo=TaskELMoConfig(model=None), input_dim=7)
    x, layout = torch.randn(2, 3, 7), PackedBatch.from_lengths([3, 3])
    assert not torch.equal(body(x, layout, None), body(x, layout, None))
    body.eval()
    assert torch.equal(body(x, layout, None), body(x, layout, None))
