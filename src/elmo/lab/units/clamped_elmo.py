"""One direction of an ELMo with clamped units: text generation and losses."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from elmo.formats.pretrained import Pretrained
from elmo.kernels.device import default_device
from elmo.kernels.exact_float32 import exact_float32
from elmo.kernels.lstm_call import LSTMCall
from elmo.lab.elmo_generation import ElmoCodec
from elmo.lab.elmo_stepper import Direction, ElmoStepper
from elmo.lab.generation import StepwiseGenerator
from elmo.lab.units.clamp import Clamp, ClampedUnits, LayerSizes
from elmo.lab.units.gates import elmo_gates
from elmo.model.losses import exact_losses
from elmo.model.lstm import LSTMLayer, LSTMState, StepMask
from elmo.text.vocabulary import UNKNOWN


class ClampedElmoStepper(ElmoStepper):
    """One direction of an ELMo with clamped units as a `StepwiseModel`."""

    def __init__(
        self,
        model: Pretrained,
        direction: Direction,
        rows: Sequence[Sequence[Clamp]],
        device: str | torch.device = "cpu",
    ) -> None:
        """Load the network.

        Args:
            model: Model with a softmax and a vocabulary.
            direction: "forward" predicts the word after, "backward" the word before.
            rows: Clamps of each batch row. A single row is used for batches of any size.
            device: Device of the computation.

        Raises:
            ConfigError: As in `ElmoStepper`, or the model does not have a unit.
        """
        super().__init__(model, direction, device)
        lstm = model.config.lstm
        sizes = LayerSizes(
            "lstm", [lstm.projection_dim] * lstm.n_layers, [lstm.cell_dim] * lstm.n_layers
        )
        self.units = ClampedUnits(sizes, rows, self.device)

    def run(self, x: Tensor, resets: Tensor | None, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Run the layers step by step, and clamp units in each step of each layer."""
        outputs: list[Tensor] = []
        mask = StepMask(torch.ones_like(x[:1, :, 0], dtype=torch.bool), [x.shape[1]])
        for number in range(len(x)):
            value = x[number : number + 1]
            if resets is not None:
                is_kept = ~resets[number].unsqueeze(1)
                state = LSTMState(state.h * is_kept, state.c * is_kept)
            h: list[Tensor] = []
            c: list[Tensor] = []
            for depth, layer in enumerate(self.stack.layers):
                assert isinstance(layer, LSTMLayer)
                call = layer.kernel_call(
                    value, state.h[depth, 0], state.c[depth, 0], mask, reverse=False
                )
                if self.units.has_cells(depth):
                    output, cell = _run_with_cells(call, depth, self.units)
                else:
                    ((output, _, cell),) = self.kernels.lstm([call])
                output = self.units.hidden(depth, output)
                h.append(output[0])
                c.append(cell)
                # The recurrent state is the output before the residual is added.
                value = output + value if self.stack.residual and depth > 0 else output
            state = LSTMState(torch.stack(h).unsqueeze(1), torch.stack(c).unsqueeze(1))
            outputs.append(value)
        return torch.cat(outputs), state


def _run_with_cells(call: LSTMCall, layer: int, units: ClampedUnits) -> tuple[Tensor, Tensor]:
    """Return output (1, batch, projection) and cell of one step, with clamped cells."""
    # The gates of a single step depend on the state before it only.
    gates = elmo_gates(call, call.h.unsqueeze(0))
    cell = units.cell(layer, gates["cell"][0])
    output = gates["output"] * cell.tanh()
    if call.weight_hr is not None:
        output = functional.linear(output, call.weight_hr)
        if call.projection_clip is not None:
            output = output.clamp(-call.projection_clip, call.projection_clip)
    return output, cell


def clamped_elmo_generator(
    model: Pretrained,
    clamps: Sequence[Clamp],
    direction: Direction = "forward",
    device: str | torch.device | None = None,
) -> StepwiseGenerator[LSTMState]:
    """Return a generator that writes text with clamped units of one direction of an ELMo."""
    stepper = ClampedElmoStepper(model, direction, [clamps], device or default_device())
    return StepwiseGenerator(stepper, ElmoCodec(stepper, direction, model.config.text.tokenizer))


@torch.no_grad()
def clamped_elmo_bits(
    model: Pretrained,
    sentences: Sequence[Sequence[str]],
    direction: Direction,
    rows: Sequence[Sequence[Clamp]],
    device: str | torch.device | None = None,
) -> list[float]:
    """Return the loss of one direction for each row of clamps, in bits per prediction.

    The words and the end of each sentence are predicted. Each sentence starts from a zero state.

    Args:
        model: Model with a softmax and a vocabulary.
        sentences: The sentences.
        direction: The direction, whose units are clamped.
        rows: Clamps of each loss.
        device: Device of the computation. Default: cuda if available.
    """
    stepper = ClampedElmoStepper(model, direction, rows, device or default_device())
    unknown = stepper.vocabulary.ids[UNKNOWN]
    total, n_predictions = torch.zeros(len(rows), dtype=torch.float64), 0
    with exact_float32():
        for words in sentences:
            ids = stepper.add_words(words if direction == "forward" else words[::-1])
            inputs = torch.tensor([stepper.border, *ids]).unsqueeze(1).expand(-1, len(rows))
            hidden, _ = stepper.hidden(inputs, stepper.start(len(rows)))
            known = [number if number < stepper.n_symbols else unknown for number in ids]
            targets = torch.tensor([*known, stepper.border], device=stepper.device)
            losses = exact_losses(
                stepper.softmax, hidden.flatten(0, 1), targets.repeat_interleave(len(rows))
            )
            total += losses.view(-1, len(rows)).double().sum(0).cpu()
            n_predictions += len(targets)
    bits: list[float] = (total / n_predictions / torch.log(torch.tensor(2.0).double())).tolist()
    return bits
