"""Tables of the language models themselves: perplexity and minimal pairs."""

from result_tables import Runs, table

# Texts by the end of the run's name, which begins with the name of the model.
TEXTS = {
    "lm1b": "One Billion Word, held-out sentences",
    "wikitext-103": "WikiText-103, test",
    "klue-ynat": "KLUE-YNAT, dev titles",
}
BLIMP = "blimp"
DIRECTIONS = ("forward", "backward", "both")


def perplexity(runs: Runs) -> str:
    """Return the perplexity of each model on each text."""
    rows = []
    for ending, title in TEXTS.items():
        for model in runs.models(ending):
            result = runs.result(f"{model}-{ending}")
            assert result is not None
            values = [f"{result[key]:.1f}" for key in ("forward", "backward", "mean")]
            unknown = f"{result['unknown_rate']:.2%}"
            rows.append([title, f"{result['n_words']:,}", model, *values, unknown])
    header = ["text", "words", "model", "forward", "backward", "mean", "unknown words"]
    return table(header, rows)


def minimal_pairs(runs: Runs) -> str:
    """Return the accuracy of each model and direction on BLiMP, by field and phenomenon."""
    models = runs.models(BLIMP)
    results = [result for model in models if (result := runs.result(f"{model}-{BLIMP}"))]
    columns = [result[direction] for result in results for direction in DIRECTIONS]

    def row(title: str, values: list[float | None]) -> list[str]:
        return [title, *("" if value is None else f"{100 * value:.1f}" for value in values)]

    rows = [
        row("all pairs", [column["all"] for column in columns]),
        row("without pairs with one unknown", [column["others"] for column in columns]),
    ]
    for key, title in (("fields", "field"), ("phenomena", "phenomenon")):
        for name in columns[0][key] if columns else ():
            values = [column[key][name] for column in columns]
            rows.append(row(f"{title}: {name.replace('_', ' ')}", values))
    header = [f"{model}, {direction}" for model in models for direction in DIRECTIONS]
    return table(["accuracy", *header], rows)


def pairs_with_one_unknown(runs: Runs) -> str:
    """Return a phrase with the share of pairs in which only one sentence has an unknown word."""
    shares = [
        f"{result['one_unknown']:.1%} of the pairs for `{model}`"
        for model in runs.models(BLIMP)
        if (result := runs.result(f"{model}-{BLIMP}"))
    ]
    return ", ".join(shares)
