"""The page in one file: HTML, styles and scripts."""

from functools import cache

from elmo.lab.pages.html_page import build_page, page_resource

# In the order in which they use each other.
_SCRIPTS = ("server.js", "modes.js", "request_code.js", "words_view.js", "results.js", "app.js")
# Texts that visitors can start from, by the word that is chosen in them.
_EXAMPLES = {
    "bank": (
        "He sat on the bank of the river and watched the boats.\n"
        "The bank lends money to small companies.\n"
        "We walked along the shore of the lake."
    ),
    "play": (
        "The actors will perform the play in London.\n"
        "It was the best play of the game.\n"
        "The children play in the garden."
    ),
    "spring": (
        "The flowers bloom in spring.\n"
        "They drank cold water from the spring.\n"
        "A steel spring closes the door."
    ),
}


@cache
def playground_page() -> str:
    """Return the page as HTML."""
    return build_page(
        "ELMo playground",
        page_resource(__package__, "playground.html"),
        [page_resource(__package__, "playground.css")],
        [page_resource(__package__, name) for name in _SCRIPTS],
        {"examples": [{"word": word, "text": text} for word, text in _EXAMPLES.items()]},
        connect=True,
    )
