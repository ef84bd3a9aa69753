"""Search for a stop string in text that arrives in parts."""


class StopString:
    """Passes text on until a stop string appears, and drops the stop string and the text after it.

    The end of the text is held back while it can be the beginning of the stop string.
    """

    def __init__(self, stop: str | None) -> None:
        """Set the stop string; None passes all text on."""
        self.stop = stop
        self.is_found = False
        self._held = ""

    def add(self, text: str) -> str:
        """Add text, and return the text that is certain to precede the stop string."""
        if self.stop is None:
            return text
        if self.is_found:
            return ""
        text = self._held + text
        before, match, _ = text.partition(self.stop)
        if match:
            self.is_found, self._held = True, ""
            return before
        n_held = next(
            length
            for length in range(min(len(self.stop) - 1, len(text)), -1, -1)
            if text.endswith(self.stop[:length])
        )
        self._held = text[len(text) - n_held :]
        return text[: len(text) - n_held]

    def end(self) -> str:
        """Return the text that was held back, at the end of the text."""
        held, self._held = self._held, ""
        return held
