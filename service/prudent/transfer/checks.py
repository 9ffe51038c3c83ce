"""What the lines of a file must hold together: with each other, and with the campaign that the header describes."""

from prudent.campaigns import AlgorithmChange, CampaignConfiguration, InvalidConfigurationError, resolve
from prudent.campaigns.configuration import MultiArmedModel, SharedModel
from prudent.campaigns.resolution import check_arm_features, check_size
from prudent.errors import InvalidCommandError
from prudent.ledger.importing import BeginImport, FinishImport
from prudent.store.tables import ArmRow
from prudent.transfer import lines
from prudent.transfer.lines import ArmLine, DecisionLine, Header, ObservationLine, Trailer


class DamagedFileError(InvalidCommandError):
    """What stands in a line, or is missing there, makes the file no export that can be imported."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message, field=f"line {line}")


class CampaignFile:
    """A file's campaign as far as it was read. Each line is checked before it is taken."""

    def __init__(self, header: Header) -> None:
        _check_header(header)
        self._header = header
        self._model = header.creation.model
        self._dimension = 0 if isinstance(self._model, MultiArmedModel) else self._model.dimension
        self._arms: dict[str, ArmRow] = {}
        self._plays: dict[str, int] = {}
        self._head = self._decisions = 0
        self.version = header.version
        self.is_begun = False
        """Whether all arms are known, and the campaign can be staged."""

    def begin(self, line: int) -> BeginImport:
        """The arms are complete. Raises DamagedFileError."""
        header = self._header
        created = header.creation.arms
        if len(self._arms) != header.arms or len(created) > header.arms:
            raise DamagedFileError(line, f"comes after {len(self._arms)} arms; the header has {header.arms}")
        try:
            check_size(header.creation, header.arms, "arms")
        except InvalidConfigurationError as error:
            raise DamagedFileError(1, error.message) from None
        self.is_begun = True
        return BeginImport(
            campaign_id=header.campaign_id,
            configuration=header.configuration,
            creation=header.creation,
            status=header.status,
            revision=header.revision,
            learn_limit=header.learn_limit,
            arms=list(self._arms.values()),
        )

    def add_arm(self, found: ArmLine, line: int) -> None:
        """Raises DamagedFileError for an arm that is out of place, or is another than at the campaign's creation."""
        if self.is_begun:
            raise DamagedFileError(line, "is an arm: arms come before the log and the decisions")
        position = len(self._arms)
        if position >= self._header.arms or found.arm_id in self._arms:
            raise DamagedFileError(line, "is an arm too many, or one that is there already")
        created = self._header.creation.arms
        if position < len(created) and (created[position].arm_id, created[position].features) != (
            found.arm_id,
            found.features,
        ):
            raise DamagedFileError(line, "is another arm than the campaign was created with")
        try:
            check_arm_features(self._header.creation, found.features, "features")
        except InvalidConfigurationError as error:
            raise DamagedFileError(line, f"{error.field}: {error.message}") from None
        self._arms[found.arm_id] = lines.arm_row(found, position)

    def add_observation(self, found: ObservationLine, line: int) -> None:
        """Raises DamagedFileError for a row that does not continue the log, or cannot be learned."""
        if found.sequence != self._head + 1 or found.sequence > self._header.head:
            raise DamagedFileError(
                line, f"sequence: expected {self._head + 1} of {self._header.head}, received {found.sequence}"
            )
        if (found.decision_id is None) != (found.source == "warm-start"):
            raise DamagedFileError(line, "decision_id: a reward has one, and a warm start has none")
        if found.decision_id is not None and found.observation_id is not None:
            raise DamagedFileError(line, "observation_id: only a warm start has one")
        rules = self._header.creation.reward
        if (rules.minimum is not None and found.reward < rules.minimum) or (
            rules.maximum is not None and found.reward > rules.maximum
        ):
            raise DamagedFileError(line, "reward: lies outside the campaign's bounds")
        self._check_features(found, line)
        self._head += 1
        if found.source == "warm-start":
            self._count_play(found.arm_id)

    def add_decision(self, found: DecisionLine, line: int) -> None:
        """Raises DamagedFileError for a decision that the campaign cannot have made."""
        if self._head != self._header.head:
            raise DamagedFileError(
                line, f"comes after {self._head} rows of the log; the header has {self._header.head}"
            )
        if found.seen > self._head:
            raise DamagedFileError(line, f"seen: must be at most {self._head}, the last row of the log")
        if found.due_at is not None and self._header.creation.reward.timeout_seconds is None:
            raise DamagedFileError(line, "due_at: the campaign has no timeout")
        self._check_features(found, line)
        self._decisions += 1
        self._count_play(found.arm_id)

    def finish(self, trailer: Trailer, digest: str, key: int, line: int) -> FinishImport:
        """The last step. Raises DamagedFileError where the trailer tells of other lines than were read."""
        header = self._header
        if (trailer.arms, trailer.head, trailer.decisions) != (len(self._arms), self._head, self._decisions):
            raise DamagedFileError(
                line,
                f"has {trailer.arms} arms, {trailer.head} rows of the log and {trailer.decisions} decisions; "
                f"the file has {len(self._arms)}, {self._head} and {self._decisions}",
            )
        if self._head != header.head:
            raise DamagedFileError(line, f"comes after {self._head} rows of the log; the header has {header.head}")
        if trailer.digest != digest:
            raise DamagedFileError(line, "digest: is not that of the lines before it: the file was changed")
        return FinishImport(
            key, header.campaign_id, header.created_at, self._head, self._decisions, self._missed_plays()
        )

    def _check_features(self, found: ObservationLine | DecisionLine, line: int) -> None:
        if len(found.features) != self._dimension:
            raise DamagedFileError(line, f"features: expected {self._dimension}, received {len(found.features)}")
        if not isinstance(self._model, SharedModel) and found.arm_id not in self._arms:
            raise DamagedFileError(line, "arm_id: is no arm of the campaign")

    def _count_play(self, arm_id: str) -> None:
        if arm_id in self._arms:
            self._plays[arm_id] = self._plays.get(arm_id, 0) + 1

    def _missed_plays(self) -> dict[int, int]:
        """Plays by position that arms gained between the header and the pages: they count during the warm-up."""
        warmup = self._header.configuration.algorithm.warmup
        counted = {arm_id: min(plays, warmup) for arm_id, plays in self._plays.items()}
        return {self._arms[one].position: plays for one, plays in counted.items() if plays > self._arms[one].plays}


def _check_header(header: Header) -> None:
    creation, configuration = header.creation, header.configuration
    if not header.campaign_id == creation.campaign_id == configuration.campaign_id:
        raise DamagedFileError(1, "campaign_id: differs within the header")
    if (header.status == "paused") != (header.learn_limit is not None) or (header.learn_limit or 0) > header.head:
        raise DamagedFileError(1, "learn_limit: a paused campaign has one, up to its head; others have none")
    try:
        same = resolve(creation) == creation and configuration == _as_changed(creation, configuration)
    except InvalidConfigurationError as error:
        raise DamagedFileError(1, f"{error.field}: {error.message}") from None
    if not same:
        raise DamagedFileError(1, "configuration: cannot have come from the campaign's creation")


def _as_changed(creation: CampaignConfiguration, configuration: CampaignConfiguration) -> CampaignConfiguration:
    """What the creation becomes by the changes that a campaign allows, to what the configuration says."""
    dials = {name: getattr(configuration.algorithm, name) for name in AlgorithmChange.model_fields}
    changes = {"description": configuration.description, "algorithm": creation.algorithm.model_copy(update=dials)}
    return resolve(creation.model_copy(update=changes))
