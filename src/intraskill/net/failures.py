"""Why an exchange gave nothing: one value for every failure of HTTP, and whether another attempt may go better."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal

FailureKind = Literal["address", "key", "refused", "timeout", "dropped", "redirect", "endless", "protocol", "status"]
_PASSING: frozenset[FailureKind] = frozenset({"refused", "timeout", "dropped"})
TOO_MANY = 429
_TRANSIENT = (408, 409, 425, TOO_MANY)
_MOST_WORDS = 300


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """What went wrong in one exchange.

    Attributes:
        kind: ``address`` (the URL is none), ``key`` (no header can hold it), ``refused`` (no connection: nothing was
            sent), ``timeout``, ``dropped`` (the connection broke, and what was sent may have happened), ``redirect``
            (never followed), ``endless`` (more bytes than allowed), ``protocol`` (a reply of another form), ``status``
            (the server says that it failed, or refuses).
        text: what happened, in a few words, without the key.
        status: HTTP status; 0 without any.
        data: JSON of the reply, else its text, without the key; ``None`` without a reply.
        wait_s: pause that the server asks for, seconds.
    """

    kind: FailureKind
    text: str
    status: int = 0
    data: Any = None
    wait_s: float | None = None

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later: no connection, no whole reply, or a transient status."""
        return self.kind in _PASSING or (self.kind == "status" and (self.status in _TRANSIENT or self.status >= 500))

    @property
    def reason(self) -> str:
        """What the server states as the reason, else what happened."""
        return reason_of("" if self.data is None else self.data) or self.text


def reason_of(data: Any) -> str:
    """Return the error message of a reply in one line, cut to a few words."""
    stated: Any = data
    for key in ("error", "message"):
        if isinstance(stated, Mapping) and key in stated:
            stated = stated[key]
    if isinstance(data, Mapping) and "detail" in data:
        stated = data["detail"]
    return " ".join(str(stated).split())[:_MOST_WORDS]


def wait_asked(headers: Mapping[str, str]) -> float | None:
    """Return the pause that ``Retry-After`` asks for, seconds: a number or a date; ``None`` without a sensible one."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            wait_s = float(value) * scale
        except ValueError:
            continue
        if math.isfinite(wait_s) and wait_s >= 0:
            return wait_s
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
