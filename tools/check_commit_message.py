"""Check the subject line of a commit message: imperative, capitalized, at most 72 characters.

pre-commit runs it as a commit-msg hook: python tools/check_commit_message.py FILE
"""

import re
import sys
from pathlib import Path

MAX_LENGTH = 72
# Verbs that end like a third person or a past tense, but are imperative.
IMPERATIVE = set(
    "Access Address Assess Bring Bypass Compress Discuss Dismiss Embed Exceed Express Feed Focus "
    "Need Pass Process Seed Speed Suppress".split()
)
# Other verb forms, and common first words of subjects without an imperative.
NOT_IMPERATIVE = re.compile(
    r"\w+(ed|ing|s)|The|An?|What|When|Where|Which|How|New|No|One|Made|Wrote|Now|Also"
)


def problems(message: str) -> list[str]:
    """Return what is wrong with the subject line of a commit message.

    Args:
        message: The whole message.

    Returns:
        One sentence per problem; empty if the subject is fine.
    """
    subject = message.partition("\n")[0]
    if not subject.strip():
        return ["The subject line is empty."]
    sentences = []
    if len(subject) > MAX_LENGTH:
        sentences.append(f"The subject has {len(subject)} characters; at most {MAX_LENGTH} fit.")
    if subject.endswith("."):
        sentences.append("The subject ends with a period; remove it.")
    first = subject.split()[0]
    if not first.isalpha() or not first[0].isupper():
        sentences.append(f"The subject starts with {first!r}, not with a capitalized verb.")
    elif first not in IMPERATIVE and NOT_IMPERATIVE.fullmatch(first):
        sentences.append(f"The subject starts with {first!r}; use the imperative, such as 'Fix'.")
    return sentences


def main() -> int:
    """Print the problems of the commit message in the given file.

    Returns:
        0 if there are none, else 1.
    """
    sentences = problems(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for problem in sentences:
        print(problem, file=sys.stderr)
    return int(bool(sentences))


if __name__ == "__main__":
    sys.exit(main())
