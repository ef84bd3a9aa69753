"""Traces with known values, for tests of the explorer."""

import numpy as np

from elmo.lab.units.traces import TextSample, Track, UnitTraces

TEXT = (
    'He said "good morning" and left.\n'
    "Nobody spoke for a while.\n"
    'Then she asked "who was that?" and sat down.\n'
    "It rained all day.\n"
    'At night he wrote "come back soon" on a card.\n'
)
N_UNITS = 12
QUOTE_UNIT = 5


def inside_quotes(text):
    """Return whether each character is inside of quotes, with the opening quote."""
    count = np.cumsum([character == '"' for character in text])
    return count % 2 == 1


def quote_traces(text=TEXT, seed=0, layers=2, kinds=("hidden", "cell", "forget"), note=""):
    """Return traces with noise, in which one hidden unit of the highest layer detects quotes."""
    generator = np.random.default_rng(seed)
    values = {}
    for layer in range(layers):
        for kind in kinds:
            noise = generator.uniform(-0.4, 0.4, size=(len(text), N_UNITS))
            if kind == "forget":
                noise = noise + 0.5
            if layer == layers - 1 and kind == "hidden":
                noise[:, QUOTE_UNIT] = np.where(inside_quotes(text), 0.9, -0.3)
            values[Track(layer, "forward", kind)] = noise.astype(np.float32)
    guesses = tuple(((character, 0.75), ("<", 0.25)) for character in text)
    surprisal = np.full(len(text), 2.0, dtype=np.float32)
    surprisal[0], guesses = np.nan, ((), *guesses[1:])
    return UnitTraces(tuple(text), "characters", values, surprisal, guesses, note)


def sampled_traces(windows):
    """Return the traces of parts of the text."""
    traces = quote_traces()
    rows = np.concatenate([np.arange(window.start, window.stop) for window in windows])
    return UnitTraces(
        tuple(TEXT[row] for row in rows),
        "characters",
        {track: values[rows] for track, values in traces.values.items()},
        traces.surprisal[rows],
        tuple(traces.guesses[row] for row in rows),
        "A note.",
        TextSample(windows, TEXT),
    )
