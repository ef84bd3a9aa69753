"""Tests that code and docs do not contain the phrases that `docs/language.md` bans."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "elmo"
FOLDERS = ("src", "tests", "docs", "benchmarks", "examples", "models", "runs", "tools")
SUFFIXES = {".c", ".h", ".md", ".py", ".sh", ".yaml"}
# The guide and this test contain the banned phrases, and some files list names from earlier
# versions. The toy corpus is training text.
EXEMPT = {
    "docs/language.md",
    "src/elmo/config/renamed.py",
    "src/elmo/demo/toy_corpus.py",
    "src/elmo/tasks/core/renamed_records.py",
    "tests/config/test_renamed.py",
    "tests/tasks/core/test_renamed_records.py",
    "tests/test_wording.py",
}
# Single phrases that a file needs, such as keys in files from earlier versions.
ALLOWED = {"src/elmo/corpus/bptt_segments.py": ["lanes"]}

# A phrase to avoid, as a regular expression over text with underscores as spaces, and what to
# write instead.
BANNED = {
    r"dials?": "option, hyperparameter",
    r"halves": "half precision",
    r"lanes?": "stream, batch row",
    r"(?<!capital )(?<!lowercase )(?<!uppercase )(?<!greek )letters": "characters",
    r"told": "reported, logged, printed",
    r"gone on|go(es)? on with|went on with": "resumed, continued",
    r"let loose": "unfreeze",
    r"mend(s|ed|ing)?": "fix",
    r"(?<!connection )refus(e|es|ed|ing|al)": "reject, raise",
    r"in an(other)? arithmetic|arithmetics": "precision, dtype",
    r"what suits": "chosen per device",
    r"where none (is|are|was)|where nothing is said|none is (named|said)": "if not given, default",
    r"is meant|are meant": "must be, expected",
    r"(may )?(lie|lies|lay) (beside|apart)": "is next to",
    r"what cannot be|what can be": "name the thing",
    r"no (whole )?number": "NaN, not an integer",
    r"whole numbers?": "integer",
    r"(word|sentence|row|line|tree|record|text|document) a (line|row|word|sentence)": "per",
    r"numbers a word": "dimensions per word",
    r"older loop": "AllenNLP-style loop",
    r"left to chance|far to go|by heart|will do": "say it plainly",
    r"(the )?floors? of the house|this room|its room": "layer, package",
    r"say(s|ing)? otherwise": "name the setting",
    r"that is asked for|what is asked": "requested",
    r"side by side": "in parallel",
}
BRITISH = (
    r"\w*(?:tokenis|optimis|normalis|initialis|quantis|serialis|organis|recognis|regularis"
    r"|standardis|minimis|maximis|summaris|generalis|memoris|randomis|vectoris|finalis)"
    r"(?:e|ed|er|ers|es|ing|ation|ations)",
    r"(?:neighbour|behaviour|colour|favour|honour)\w*",
    r"licence\w*",
    r"(?:un)?labell\w+|travell\w+|modell\w+",
    r"(?:centre|metre|grey)s?",
    r"analys(?:e|ed|ing)",
)
HINTS = BANNED | dict.fromkeys(BRITISH, "American spelling")
PATTERNS = [(re.compile(rf"\b(?:{text})\b", re.IGNORECASE), hint) for text, hint in HINTS.items()]
# Searching lowercase text for any phrase is six times as fast as for each phrase ignoring case.
ANY = re.compile(rf"\b(?:{'|'.join(HINTS)})\b")
# First words to avoid in docstrings.
START = r"(Give|Tell|Say|Refuse|Take what)s?\b"

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`|\]\([^)\n]*\)")
LINK = re.compile(r"\]\([^)]*\)|https?://\S+")


def files():
    """Return the paths of all checked files, relative to the repository."""
    paths = [path for name in FOLDERS for path in (ROOT / name).rglob("*")]
    paths += [*ROOT.glob("*.md"), ROOT / "Makefile"]
    names = [path.relative_to(ROOT).as_posix() for path in paths if _is_text(path)]
    return sorted(name for name in names if name not in EXEMPT)


def _is_text(path):
    is_data = "data" in path.relative_to(ROOT).parts and path.suffix != ".md"
    return path.is_file() and (path.suffix in SUFFIXES or path.name == "Makefile") and not is_data


def prose(name):
    """Return the text to check: underscores become spaces, and Markdown code is removed."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for phrase in ALLOWED.get(name, []):
        text = text.replace(f'"{phrase}"', '""')
    if name.endswith(".md"):
        for pattern in (FENCE, CODE):
            text = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return text.replace("_", " ")


def violations(text):
    """Return a description of each banned phrase in a text."""
    if not ANY.search(text.lower()):
        return []
    return [
        f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0]!r} ({hint})"
        for pattern, hint in PATTERNS
        for match in pattern.finditer(text)
    ]


@pytest.mark.parametrize("name", files())
def test_file_has_no_banned_phrase(name):
    assert violations(prose(name)) == []


def test_violations_reports_each_banned_phrase():
    assert len(violations("the dials\nof the tokeniser, where none is named")) == 3


def docstrings(code):
    """Yield the line number and text of every docstring."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield getattr(node, "lineno", 1), text


def badly_started(code):
    """Return the line numbers of docstrings that start with a word to avoid."""
    # Most files have no such string and need not be parsed.
    if not re.search(rf"['\"][\s\\]*{START}", code):
        return []
    return [line for line, text in docstrings(code) if re.match(START, text)]


def test_docstrings_do_not_start_with_give_tell_or_say():
    paths = [path for name in FOLDERS for path in (ROOT / name).rglob("*.py")]
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    assert {name: lines for name in texts if (lines := badly_started(texts[name]))} == {}


def test_badly_started_reports_only_docstrings():
    code = '"""\\\nTell."""\nx = "Say"\ndef f():\n    """Gives."""\n    """Give."""\n'
    assert badly_started(code) == [1, 4]


def test_class_names_are_unique_in_the_package():
    names = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_file_names_are_unique_in_the_package():
    # Files that play the same role in sibling packages may share a name: none do today.
    names = Counter(path.name for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_docs_are_wrapped_at_100_columns():
    long = []
    folders = (ROOT / "docs", ROOT / "examples", SOURCE)
    for path in [*ROOT.glob("*.md"), *(path for name in folders for path in name.rglob("*.md"))]:
        text = FENCE.sub(lambda match: "\n" * match[0].count("\n"), path.read_text("utf-8"))
        for number, line in enumerate(text.splitlines(), 1):
            # A table row cannot be wrapped, and neither can an address.
            if len(LINK.sub("", line)) > 100 and not line.lstrip().startswith("|"):
                long.append(f"{path.relative_to(ROOT)}:{number}")
    assert long == []
