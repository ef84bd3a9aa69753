"""Pauses of reading from a connection, for two reasons."""

from uvicorn.protocols.http.flow_control import FlowControl


class ReadingFlow(FlowControl):
    """uvicorn's flow control, which pauses for an unread body, and also for data to be parsed.

    Reading continues when neither reason is left.
    """

    _is_full = False

    def resume_reading(self) -> None:
        """Continue to read after the application has read a part of a body."""
        if self._is_full:
            self.read_paused = False
        else:
            super().resume_reading()

    def pause_until_parsed(self) -> None:
        """Pause because much is to be parsed."""
        self._is_full = True
        self._transport.pause_reading()

    def resume_after_parsing(self) -> None:
        """Continue to read after most of the data is parsed."""
        self._is_full = False
        if not self.read_paused:
            self._transport.resume_reading()
