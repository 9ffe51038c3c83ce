"""Rewards by hand: the outcome of a decision, and its correction."""

from fastapi import APIRouter, Request, Response

from prudent.api.requests import CorrectionRequest, RewardRequest
from prudent.api.server.authentication import author_of
from prudent.dashboard.confirmation import Confirmations, Question, Step
from prudent.dashboard.forms import Field, Values, number
from prudent.dashboard.overview import Overview
from prudent.dashboard.queries import Queries
from prudent.dashboard.rendering import Pages, address, see
from prudent.errors import NotFoundError
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import Correct, Reward
from prudent.ledger.missing import NO_DECISION
from prudent.security.sessions import Sessions
from prudent.store.tables import DecisionRow

PATH = "/dashboard/campaigns/{campaign_id}/decisions/{decision_id}"


def reward_routes(ledger: LedgerAccess, queries: Queries, pages: Pages, sessions: Sessions) -> APIRouter:
    """``/dashboard/campaigns/{campaign_id}/decisions/{decision_id}/reward`` and ``/correction``."""
    router = APIRouter(include_in_schema=False)
    confirmations = Confirmations(router, pages, sessions)

    async def found(campaign_id: str, decision_id: str) -> tuple[Overview, DecisionRow]:
        campaign = await queries.overview(campaign_id)
        made = await queries.decision(campaign, decision_id)
        if made is None:
            raise NotFoundError(NO_DECISION)
        return campaign, made.decision

    @confirmations.add(f"{PATH}/reward")
    async def reward(request: Request, campaign_id: str, decision_id: str) -> Step:
        campaign, made = await found(campaign_id, decision_id)
        here = address(request, "campaigns", campaign_id, "decisions", decision_id)

        def ask(values: Values) -> Question:
            value = _reward(values, decision_id).reward
            text = [f"It is learned for {made.arm_id}, and stays in the campaign's log. It can be corrected later."]
            return Question(f"Record the reward {value:g}?", text, "Record the reward")

        async def do(values: Values) -> Response:
            sent = _reward(values, decision_id)
            author = author_of(request, "dashboard")
            await ledger.submit(Reward(decision_id, sent.reward, campaign_id=campaign_id, author=author))
            queries.forget(campaign)
            return see(here)

        text = (f"The outcome of {made.arm_id} in this decision: one number, larger is better.",)
        return Step(here, ask, do, "Report the outcome", text, [Field("reward", "Reward")])

    @confirmations.add(f"{PATH}/correction")
    async def correction(request: Request, campaign_id: str, decision_id: str) -> Step:
        campaign, _ = await found(campaign_id, decision_id)
        here = address(request, "campaigns", campaign_id, "decisions", decision_id)

        def ask(values: Values) -> Question:
            wanted = _correction(values)
            text = ["The campaign learns as if it had been so from the start. The log keeps both."]
            if wanted.reward is None:
                return Question("Take the reward back?", text, "Take it back", [("Reason", wanted.reason)])
            title = f"Correct the reward to {wanted.reward:g}?"
            return Question(title, text, "Correct the reward", [("Reason", wanted.reason)])

        async def do(values: Values) -> Response:
            wanted = _correction(values)
            command = Correct(decision_id, wanted.reward, wanted.reason, campaign_id)
            await ledger.correct(command, author_of(request, "dashboard"))
            queries.forget(campaign)
            return see(here)

        fields = [
            Field("reward", "Right reward", help="Empty to take the reward back.", is_required=False),
            Field("reason", "Reason", help="It is kept in the log beside the reward."),
        ]
        return Step(here, ask, do, "Correct the reward", (), fields)

    return router


def _reward(values: Values, decision_id: str) -> RewardRequest:
    return RewardRequest.model_validate({"decision_id": decision_id, "reward": number(values.get("reward", ""))})


def _correction(values: Values) -> CorrectionRequest:
    text = values.get("reward", "").strip()
    body = {"reward": number(text) if text else None, "reason": values.get("reason", "").strip()}
    return CorrectionRequest.model_validate(body)
