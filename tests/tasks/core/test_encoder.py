"""Tests of the task encoder."""

import pytest
import torch
from small_tasks import EXAMPLES, make_fitted_task, write_elmo

from elmo.config import TaskELMoConfig, TaskEncoderConfig
from elmo.tasks.core.encoder import TaskEncoder, locked_dropout
from elmo.tasks.core.packed_batch import PackedBatch


@pytest.mark.parametrize(
    ("placement", "hidden", "width"),
    [
        ("input", 6, 12),
        ("output", 6, 12 + 10),
        ("both", 6, 12 + 10),
        ("input", 0, 7),
        ("both", 0, 7 + 10),
    ],
)
def test_encoder_output_has_the_declared_dimension(placement, hidden, width):
    encoder = TaskEncoder(
        config=TaskEncoderConfig(hidden=hidden, depth=2),
        elmo=TaskELMoConfig(placement=placement),
        input_dim=7,
        n_layers=3,
        elmo_dim=10,
    )
    layout = PackedBatch.from_lengths([3, 1])
    vectors = encoder(torch.randn(2, 3, 7), layout, torch.randn(3, 2, 3, 10))
    assert vectors.shape == (2, 3, encoder.dim)
    assert encoder.dim == width
    assert (encoder.mix is None) == (placement == "input")


def test_encoder_without_elmo_has_no_layer_mix():
    encoder = TaskEncoder(
        config=TaskEncoderConfig(hidden=4), elmo=TaskELMoConfig(placement="both"), input_dim=3
    )
    assert encoder.mix is None
    assert encoder.dim == 8


@pytest.mark.parametrize("use", ["frozen", "tuned"])
@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_word_vectors_and_losses_do_not_depend_on_batch_and_padding(tmp_path, use, task):
    examples = EXAMPLES[task]
    model = write_elmo(tmp_path / "elmo")
    texts = [example.words for example in examples]
    fitted = make_fitted_task(
        tmp_path / "run", examples, model=model, use=use, task=task, placement="both", depth=2
    )
    network, indexer = fitted.built.model.eval(), fitted.built.indexer
    label_ids = {name: number for number, name in enumerate(fitted.labels)}
    with torch.no_grad():
        batch_vectors = network.vectors(indexer.batch(texts))
        reversed_vectors = network.vectors(indexer.batch(texts[::-1]))
        for number, text in enumerate(texts):
            alone = network.vectors(indexer.batch([text]))[0]
            torch.testing.assert_close(batch_vectors[number, : len(text)], alone)
            torch.testing.assert_close(reversed_vectors[-1 - number, : len(text)], alone)
        losses = [
            network.loss(
                [indexer.batch([example.words])],
                fitted.task.targets([example], label_ids),
            )
            for example in examples
        ]
        batch_loss = network.loss([indexer.batch(texts)], fitted.task.targets(examples, label_ids))
    # The mean is over words for tagging, over texts for classification.
    sizes = torch.tensor([len(t) if task == "tagging" else 1.0 for t in texts])
    torch.testing.assert_close(batch_loss, (torch.stack(losses) * sizes).sum() / sizes.sum())


def test_locked_dropout_drops_the_same_features_for_all_words():
    torch.manual_seed(0)
    x = torch.ones(4, 6, 50)
    dropped = locked_dropout(x, 0.5, training=True)
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert len({tuple(row.tolist()) for row in dropped[:, 0]}) == 4
    assert locked_dropout(x, 0.5, training=False) is x
    assert locked_dropout(x, 0.0, training=True) is x


def test_encoder_applies_dropout_only_in_training():
    torch.manual_seed(0)
    config = TaskEncoderConfig(hidden=8, depth=2, input_dropout=0.5, dropout=0.5)
    encoder = TaskEncoder(config=config, elmo=TaskELMoConfig(model=None), input_dim=7)
    x, layout = torch.randn(2, 3, 7), PackedBatch.from_lengths([3, 3])
    assert not torch.equal(encoder(x, layout, None), encoder(x, layout, None))
    encoder.eval()
    assert torch.equal(encoder(x, layout, None), encoder(x, layout, None))
