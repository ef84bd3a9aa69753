"""Two small texts generated from patterns: a town with two senses of "bank", and a kitchen.

They were written for this project. They are simple enough to be learned in a minute, and their
words are so different that a model trained on the first text does not know the second.
"""

import random
from collections.abc import Iterator

PEOPLE = ["Anna", "Bert", "Clara", "David", "Emma", "Felix", "my sister", "our neighbour"]
TOWN = {
    "person": PEOPLE,
    "animal": ["heron", "fox", "otter", "duck", "dog", "swan"],
    "boat": ["boat", "ferry", "raft", "canoe"],
    "water": ["water", "river", "stream", "lake"],
    "wet": ["muddy", "grassy", "steep", "green", "sandy"],
    "plant": ["reeds", "willows", "flowers", "grass", "nettles"],
    "rest": ["sat", "slept", "waited", "stood", "rested"],
    "money": ["money", "coins", "savings", "notes", "wages"],
    "paper": ["loan", "cheque", "account", "mortgage", "letter"],
    "clerk": ["clerk", "manager", "guard", "cashier"],
    "act": ["opened", "closed", "signed", "checked", "refused"],
    "street": ["High Street", "Mill Lane", "the market square", "the corner"],
    "day": ["on Monday", "in the morning", "after lunch", "last week", "every Friday"],
    "season": ["in spring", "in summer", "at dawn", "at night", "before the rain"],
}
RIVER_BANK = [
    "The {boat} drifted to the {wet} bank of the {water} {season}.",
    "A {animal} {rest} on the {wet} bank and looked at the {water}.",
    "{person} {rest} on the bank of the {water} among the {plant}.",
    "The {plant} grew along the {wet} bank {season}.",
    "{person} pulled the {boat} out of the {water} onto the bank.",
    "The {water} rose over its bank {season} and the {animal} fled.",
]
MONEY_BANK = [
    "{person} took the {money} to the bank on {street} {day}.",
    "The {clerk} of the bank {act} the {paper} {day}.",
    "{person} asked the bank for a {paper} {day}.",
    "The bank on {street} keeps the {money} of the town.",
    "The {clerk} counted the {money} at the bank and {act} the {paper}.",
    "{person} {act} an account with the bank {day}.",
]
OTHER_PLACES = [
    "{person} walked along {street} {day}.",
    "The {animal} swam in the {water} {season}.",
    "{person} gave the {clerk} a {paper} {day}.",
    "The {boat} lay among the {plant} {season}.",
    "{person} and {person} met on {street} {day}.",
]
KITCHEN = {
    "person": PEOPLE,
    "food": ["soup", "dough", "sauce", "stew", "jam", "porridge"],
    "tool": ["spoon", "whisk", "ladle", "knife"],
    "dish": ["pot", "pan", "bowl", "kettle"],
    "spice": ["salt", "pepper", "sugar", "cinnamon", "garlic"],
    "work": ["Stir", "Heat", "Taste", "Cool", "Cover"],
    "time": ["for ten minutes", "until it thickens", "over a low flame", "twice", "with care"],
}
COOKING = [
    "{work} the {food} in the {dish} {time}.",
    "Add {spice} to the {food} and stir it {time}.",
    "{person} burned the {food} and washed the {dish}.",
    "The {food} boils in the {dish} with {spice} and {spice}.",
    "{person} stirred the {food} with a {tool} {time}.",
]


def town(count: int, seed: int) -> Iterator[str]:
    """Yield sentences about the town, with both senses of "bank" in equal parts."""
    yield from _sample(count, seed, (RIVER_BANK, MONEY_BANK, OTHER_PLACES), TOWN)


def kitchen(count: int, seed: int) -> Iterator[str]:
    """Yield sentences about the kitchen."""
    yield from _sample(count, seed, (COOKING,), KITCHEN)


def _sample(
    count: int, seed: int, topics: tuple[list[str], ...], words: dict[str, list[str]]
) -> Iterator[str]:
    rng = random.Random(seed)
    for _ in range(count):
        pattern = rng.choice(rng.choice(topics))
        parts = pattern.replace("}", "{").split("{")
        # Every second part is the name of a word list.
        parts[1::2] = [rng.choice(words[name]) for name in parts[1::2]]
        sentence = "".join(parts)
        yield sentence[0].upper() + sentence[1:]
