"""One typed fault for everything that can go wrong between a client and a shop server."""

from typing import Literal

from intraskill.method.errors import EnvironmentFault

FaultKind = Literal[
    "refused", "timeout", "dropped", "stale_lease", "bad_request", "server", "protocol", "version", "leak", "slots"
]


class RemoteFault(EnvironmentFault):
    """A technical failure of a remote shop; its rollout is a fault, never reward 0.

    Attributes:
        kind: ``refused`` (no connection: nothing was sent), ``timeout``, ``dropped`` (the connection broke, and what
            was sent may have happened), ``stale_lease`` (the server no longer knows the lease), ``bad_request``,
            ``server`` (it failed by its own account), ``protocol`` (a reply of another shape), ``version`` (it is not
            the environment that the run started with), ``leak`` (a reply shows an answer), ``slots`` (none came free).
    """

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(f"{message} [{kind}]")
        self.kind: FaultKind = kind
