"""A request that is refused, with the status code that says whose fault it is."""


class Refusal(Exception):
    """Answered as a JSON error; never leaves the server.

    Attributes:
        status: HTTP status code.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


NOT_FOUND = 404
SERVER_ERROR = 500
