"""Which decision an id means, outside of batches."""

from sqlalchemy import Connection

from prudent.errors import ConflictError, NotFoundError
from prudent.identifiers import key_in
from prudent.ledger.missing import NO_DECISION, NOT_OF_CAMPAIGN, SEVERAL_DECISIONS, no_campaign
from prudent.store import campaigns, decisions, log
from prudent.store.campaigns import CampaignRow
from prudent.store.tables import DecisionKey, DecisionRow


def find_decision(connection: Connection, decision_id: str, campaign_id: str | None) -> tuple[DecisionRow, CampaignRow]:
    """The decision with this id, and its campaign. campaign_id: None for whichever campaign has one.

    Raises NotFoundError, and ConflictError if several have one.
    """
    if campaign_id is not None:
        campaign = campaigns.find_campaign(connection, campaign_id)
        if campaign is None:
            raise no_campaign(connection, campaign_id)
        row = decisions.find_decisions(connection, [(campaign.key, decision_id)]).get((campaign.key, decision_id))
        if row is None:
            raise NotFoundError(NOT_OF_CAMPAIGN, field="campaign_id")
        return row, campaign
    hint = key_in(decision_id)
    found = [] if hint is None else _living(connection, decisions.find_decisions(connection, [(hint, decision_id)]))
    found = found or _living(connection, decisions.find_anywhere(connection, [decision_id]))
    if not found:
        raise NotFoundError(NO_DECISION)
    if len(found) > 1:
        raise ConflictError(SEVERAL_DECISIONS, field="campaign_id")
    return found[0]


def find_identity(connection: Connection, decision_id: str, campaign_id: str | None) -> DecisionKey:
    """What identifies the decision with this id; also of one that was pruned and had a reward, as far as can be told.

    Without a campaign_id only ids that the service has made tell it. Raises as `find_decision` does.
    """
    try:
        return find_decision(connection, decision_id, campaign_id)[0].identity
    except NotFoundError:
        if campaign_id is None:
            key = key_in(decision_id)
        else:
            key = campaigns.find_keys(connection, [campaign_id]).get(campaign_id)
        if key is None or not log.find_observations(connection, [(key, decision_id)]):
            raise
        return key, decision_id


def _living(connection: Connection, rows: dict[DecisionKey, DecisionRow]) -> list[tuple[DecisionRow, CampaignRow]]:
    """Those whose campaign is neither deleted nor still being imported."""
    pairs = ((row, campaigns.read_campaign(connection, row.key)) for row in rows.values())
    return [(row, campaign) for row, campaign in pairs if campaign is not None and campaign.campaign_id is not None]
