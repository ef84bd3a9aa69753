"""Two small texts drawn from patterns: a town with two kinds of bank, and a kitchen.

Written for this project; simple enough to be learned in a minute, and a model that has learned the
first has never heard of the second.
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
ELSEWHERE = [
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
    """Give sentences about the town; a river's bank and a bank of money in equal parts."""
    yield from _drawn(count, seed, (RIVER_BANK, MONEY_BANK, ELSEWHERE), TOWN)


def kitchen(count: int, seed: int) -> Iterator[str]:
    """Give sentences about the kitchen."""
    yield from _drawn(count, seed, (COOKING,), KITCHEN)


def _drawn(
    count: int, seed: int, kinds: tuple[list[str], ...], words: dict[str, list[str]]
) -> Iterator[str]:
    draw = random.Random(seed)
    for _ in range(count):
        pattern = draw.choice(draw.choice(kinds))
        parts = pattern.replace("}", "{").split("{")
        # Every second part is the name of a list.
        parts[1::2] = [draw.choice(words[name]) for name in parts[1::2]]
        sentence = "".join(parts)
        yield sentence[0].upper() + sentence[1:]
