"""What the ledger is asked to do. Features are float64 arrays, or values by name, as sent.

Every command declares what the queue and the batch need to know of it:

is_batched            whether it may share a transaction with others
items, nbytes         how much of the queue it takes, in commands and in bytes
learns                whether it may append to its campaign's log, or change a decision that was made
campaign_id           the campaign that it names; None for whichever has its decision
decision_id           the decision that it names, or that it is to make; None if there is none
subject               whom or what it is for, in place of a decision_id; None if it does not say

Nobody changes a message. Those of the hot path are not frozen all the same: that would make each four times as slow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from prudent.campaigns import AlgorithmChange, CampaignConfiguration, Given
from prudent.campaigns.rows import bytes_of
from prudent.security.keys import Role

CampaignStatus = Literal["active", "paused", "archived"]
ArmStatus = Literal["active", "paused", "retired"]
Floats = NDArray[np.float64]


class Author(NamedTuple):
    """Who changes something, for the trail. name: of the API key; None where none is in use."""

    name: str | None
    via: Literal["API", "dashboard", "command line"]


ON_COMMAND_LINE = Author(None, "command line")


@dataclass(slots=True, eq=False)
class Select:
    """Choose an arm. arms: None for all registered ones; features None where the registered ones are meant.

    matrix: the arms' features together, (K, d), if all are arrays and of one length. is_named: whether any features are
    values by name, which `prudent.ledger.selection.with_rows` makes arrays. has_rows: its arrays are as in the log.
    is_deferred: whether the decision is to be no play before it is activated or rewarded.
    """

    campaign_id: str
    decision_id: str | None = None
    arms: Sequence[tuple[str, Given | None]] | None = None
    matrix: Floats | None = None
    context: Given | None = None
    eligible: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    explore: bool = True
    explain: bool = False
    chosen_arm_id: str | None = None
    is_named: bool = False
    has_rows: bool = False
    subject: str | None = None
    is_deferred: bool = False

    is_batched = True
    learns = False
    items = 1

    @property
    def nbytes(self) -> int:
        """Bytes it holds, most of them features."""
        if self.matrix is not None:
            return 500 + self.matrix.nbytes
        return 500 + sum(bytes_of(features) for _, features in self.arms or ()) + bytes_of(self.context)

    def digest(self) -> bytes:
        """Equal for the same request: all but ``explain``, which changes the reply and not the decision.

        The features must be arrays. Of a header that says what there is and how long it is, and the features' bytes;
        -0.0 counts as 0.0.
        """
        listed = self.arms or ()
        header = [
            self.campaign_id,
            self.chosen_arm_id,
            self.explore,
            None if self.eligible is None else sorted(self.eligible),
            sorted(self.exclude),
            None if self.context is None else len(self.context),
            None if self.arms is None else [(arm_id, None if x is None else len(x)) for arm_id, x in listed],
        ]
        if self.is_deferred:  # those of before this could be said have no such entry
            header.append("deferred")
        features = [x for _, x in listed if isinstance(x, np.ndarray)]
        if isinstance(self.context, np.ndarray):
            features.append(self.context)
        hashed = blake2b(orjson.dumps(header), digest_size=16)
        if features:
            hashed.update((np.concatenate(features) + 0.0).tobytes())
        return hashed.digest()


@dataclass(slots=True, eq=False)
class Evaluate(Select):
    """Choose an arm for an application that knows a feature flag and nothing of the campaign behind it.

    Values of the context that are none of the campaign's features are left out. Where decisions stand for subjects, it
    must have one. A campaign that is paused or archived decides nothing: its flag is off.
    """


@dataclass(slots=True)
class Reward:
    """Learn the reward of a decision, or of a subject's latest one. arm_id: another arm that was used in the end.

    With a subject its campaign_id is required, and with a decision_id that several campaigns use. author: of one that
    is sent by hand, and so belongs in the trail.
    """

    decision_id: str | None
    reward: float
    arm_id: str | None = None
    campaign_id: str | None = None
    subject: str | None = None
    author: Author | None = None

    is_batched = True
    learns = True
    items = 1
    nbytes = 300


@dataclass(frozen=True, slots=True, eq=False)
class LearnEvent:
    """Learn what an event says of a subject's latest decision that waits for a reward. event: its name.

    value: of a native event; body: of one of another system, size: of it, in bytes. at: when it happened, microseconds
    since 1970; None for now.
    """

    campaign_id: str
    subject: str
    event_id: str
    event: str
    value: float | None
    body: Mapping[str, Any] | None
    at: int | None
    size: int

    decision_id = None
    is_batched = True
    learns = True
    items = 1

    @property
    def nbytes(self) -> int:
        """Bytes it holds: parsed JSON takes several times its text."""
        return 500 + 10 * self.size


@dataclass(frozen=True, slots=True)
class Activate:
    """A decision with deferred activation has been shown: it is a play from now on, and its deadline runs."""

    decision_id: str
    campaign_id: str | None = None

    subject = None
    is_batched = True
    learns = True
    items = 1
    nbytes = 300


@dataclass(frozen=True, slots=True)
class Expire:
    """A decision's deadline has passed: learn the campaign's default reward, if it has one."""

    campaign_id: str
    decision_id: str

    subject = None
    is_batched = True
    learns = True
    items = 1
    nbytes = 300


@dataclass(frozen=True, slots=True, eq=False)
class WarmStart:
    """One observation made elsewhere. features: the arm's (shared model); context: the request's (disjoint)."""

    arm_id: str
    reward: float
    features: Given | None = None
    context: Given | None = None
    observation_id: str | None = None
    observed_at: int | None = None
    propensity: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Observe:
    """Learn observations made elsewhere: all of them or, if one is wrong, none."""

    campaign_id: str
    observations: Sequence[WarmStart]

    decision_id = None
    subject = None
    is_batched = True
    learns = True

    @property
    def items(self) -> int:
        """Each observation counts as a command."""
        return len(self.observations)

    @property
    def nbytes(self) -> int:
        """Bytes it holds, most of them features."""
        given = (part for one in self.observations for part in (one.features, one.context))
        return 300 * len(self.observations) + sum(map(bytes_of, given))


@dataclass(frozen=True, slots=True)
class Describe:
    """Report what the campaign's model has learned."""

    campaign_id: str

    decision_id = None
    subject = None
    is_batched = True
    learns = False
    items = 1
    nbytes = 100


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """Say what a select would do now, and record nothing. request: its decision_id is ignored."""

    request: Select

    decision_id = None
    subject = None
    is_batched = True
    learns = False
    items = 1

    @property
    def campaign_id(self) -> str:
        """The campaign of the request."""
        return self.request.campaign_id

    @property
    def nbytes(self) -> int:
        """Bytes that the request holds."""
        return self.request.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Compare:
    """Say in which of these contexts which of these arms has the best estimate. Disjoint; neither may be empty.

    contexts: (n, d), as sent. arms: registered ones; the answer has their order.
    """

    campaign_id: str
    contexts: Floats
    arms: Sequence[str]

    decision_id = None
    subject = None
    is_batched = True
    learns = False
    items = 1

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        return 100 + self.contexts.nbytes


Command = Select | Reward | LearnEvent | Activate | Expire | Observe | Describe | Preview | Compare


class SingleCommand:
    """A command that changes a campaign itself, or imports one: in a transaction of its own."""

    __slots__ = ()
    is_batched = False
    items = 1
    nbytes = 1_000


@dataclass(frozen=True, slots=True)
class CreateCampaign(SingleCommand):
    """Create a campaign. requested: it can be resolved."""

    requested: CampaignConfiguration


@dataclass(frozen=True, slots=True)
class ChangeCampaign(SingleCommand):
    """Change what may change of a campaign; None leaves it."""

    campaign_id: str
    description: str | None = None
    status: CampaignStatus | None = None
    algorithm: AlgorithmChange | None = None
    client_side: bool | None = None
    retention_days: int | None = None
    log_retention_days: int | None = None


@dataclass(frozen=True, slots=True)
class RestartCampaign(SingleCommand):
    """Have the log count from one of its rows on. first: its sequence number."""

    campaign_id: str
    first: int


@dataclass(frozen=True, slots=True)
class Correct(SingleCommand):
    """Replace the reward of a decision, or take it back: None. reason: for the trail."""

    decision_id: str
    reward: float | None
    reason: str
    campaign_id: str | None = None


@dataclass(frozen=True, slots=True)
class EraseDecisions(SingleCommand):
    """Erase decisions for a subject of a campaign, and what was learned of them."""

    campaign_id: str
    decision_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class DeleteCampaign(SingleCommand):
    """Delete a campaign with its log."""

    campaign_id: str


@dataclass(frozen=True, slots=True, eq=False)
class AddArm(SingleCommand):
    """Register an arm at run time."""

    campaign_id: str
    arm_id: str
    features: Given | None = None
    value: Any = None


@dataclass(frozen=True, slots=True)
class ChangeArm(SingleCommand):
    """Pause, retire or reactivate an arm, or give it another value, if `changes_value`. status: None leaves it."""

    campaign_id: str
    arm_id: str
    status: ArmStatus | None = None
    value: Any = None
    changes_value: bool = False


@dataclass(frozen=True, slots=True)
class EndSession(SingleCommand):
    """Sign a session of the dashboard out, for good and on every worker. expires_at: microseconds since 1970."""

    session: bytes
    expires_at: int


@dataclass(frozen=True, slots=True)
class CreateKey(SingleCommand):
    """Create an API key. digest: of the key, which nothing but its holder knows; ending: its last characters."""

    name: str
    role: Role
    note: str
    digest: bytes
    ending: str


@dataclass(frozen=True, slots=True)
class RevokeKey(SingleCommand):
    """Revoke the valid API key of this name, for good."""

    name: str
