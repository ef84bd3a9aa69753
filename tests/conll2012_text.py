"""Text of small CoNLL-2012 files."""


def rows(words, *columns):
    """Return the lines of a CoNLL-2012 sentence with the given last columns."""
    lines = []
    for number, word in enumerate(words):
        cells = " ".join(column[number] for column in columns)
        lines.append(f"bc/x 0 {number} {word} NN * - - - Kim * {cells}")
    return "\n".join(lines) + "\n\n"


def document(*sentences, name="(bc/x); part 000"):
    return f"#begin document {name}\n{''.join(sentences)}#end document\n"
