"""Small recurrent networks with random weights, for tests."""

from elmo.config.language_models import RecurrentConfig, RecurrentModelConfig, SymbolConfig
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.lab.symbols import Symbols

TEXT = "to be or not to be,\nthat is the question:\nwhether 'tis nobler\n"


def small_network(text=TEXT, unit="characters", seed=3, **options):
    """Return a network in evaluation mode and the symbols of a text."""
    symbols = Symbols.of_text([text], SymbolConfig(unit=unit))
    shape = RecurrentConfig(**{"n_layers": 2, "hidden_dim": 12, **options})
    has_characters = shape.word_input == "characters"
    config = RecurrentModelConfig(
        unit=unit,
        n_symbols=len(symbols),
        network=shape,
        max_characters=12 if has_characters else 0,
    )
    network = RecurrentNetwork(config=config)
    network.initialize(seed)
    network.set_symbols(symbols)
    return network.eval().requires_grad_(False), symbols
