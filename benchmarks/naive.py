"""The naive service: what one would write first, and an honest version of it.

FastAPI as its tutorial has it, SQLAlchemy's asynchronous ORM on aiosqlite, one transaction a request, the same
algorithm (LinUCB for the mean, with the data-driven dial) and the same payloads. The model is a row: each request
reads it, a reward writes it back. As durable as the service: WAL, synchronous=FULL, an answer after the commit. One
connection, because SQLite has one writer: with more, requests fail with "database is locked".
"""

import argparse
import math
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import ForeignKey, event
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from benchmarks.serving import serve

DELTA = 0.05


class Base(DeclarativeBase):
    pass


class Campaign(Base):
    __tablename__ = "campaigns"
    campaign_id: Mapped[str] = mapped_column(primary_key=True)
    observations: Mapped[int]
    reward_squares: Mapped[float]
    precision: Mapped[bytes]  # sum of x x^T + I
    moment: Mapped[bytes]  # sum of y x


class DecisionRow(Base):
    __tablename__ = "decisions"
    decision_id: Mapped[str] = mapped_column(primary_key=True)
    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaigns.campaign_id"))
    arm_id: Mapped[str]
    features: Mapped[bytes]
    estimate: Mapped[float]
    bonus: Mapped[float]
    observations: Mapped[int]


class RewardRow(Base):
    __tablename__ = "rewards"
    decision_id: Mapped[str] = mapped_column(ForeignKey("decisions.decision_id"), primary_key=True)
    reward: Mapped[float]
    sequence: Mapped[int]


class Model(BaseModel):
    type: str
    dimension: int


class CampaignRequest(BaseModel):
    campaign_id: str
    model: Model


class Arm(BaseModel):
    arm_id: str
    features: list[float]


class SelectRequest(BaseModel):
    campaign_id: str
    arms: list[Arm]


class Decision(BaseModel):
    decision_id: str
    campaign_id: str
    arm_id: str
    estimate: float
    bonus: float
    index: float
    reason: str
    greedy_arm_id: str
    exploring: bool
    propensity: float
    observations: int


class RewardRequest(BaseModel):
    decision_id: str
    reward: float


class Receipt(BaseModel):
    decision_id: str
    campaign_id: str
    arm_id: str
    reward: float
    observations: int
    duplicate: bool
    learned: bool


def scores(campaign: Campaign, features: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Estimates and bonuses of LinUCB, regularization 1, with the data-driven dial."""
    moment = np.frombuffer(campaign.moment)
    precision = np.frombuffer(campaign.precision).reshape(len(moment), -1)
    inverse = np.linalg.inv(precision)
    theta = inverse @ moment
    squares = float(campaign.reward_squares - 2 * theta @ moment + theta @ precision @ theta - theta @ theta)
    noise = math.sqrt(max(squares, 0.0) / campaign.observations) if campaign.observations else 1.0
    radius = noise * math.sqrt(2 * math.log(1 / DELTA) + np.linalg.slogdet(precision)[1])
    norms = np.sqrt(np.einsum("ki,ij,kj->k", features, inverse, features))
    return features @ theta, (radius + math.sqrt(theta @ theta)) * norms


def create_app(database_url: str) -> FastAPI:
    engine = create_async_engine(database_url, pool_size=1, max_overflow=0, pool_timeout=60)

    @event.listens_for(engine.sync_engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")

    sessions = async_sessionmaker(engine)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        yield
        await engine.dispose()

    app = FastAPI(lifespan=lifespan)

    @app.get("/health/ready")
    async def ready() -> dict[str, str]:
        return {"status": "ready"}

    @app.post("/campaigns", status_code=201)
    async def create(request: CampaignRequest) -> dict[str, str]:
        dimension = request.model.dimension
        async with sessions.begin() as session:
            session.add(
                Campaign(
                    campaign_id=request.campaign_id,
                    observations=0,
                    reward_squares=0.0,
                    precision=np.eye(dimension).tobytes(),
                    moment=np.zeros(dimension).tobytes(),
                )
            )
        return {"campaign_id": request.campaign_id}

    @app.post("/select")
    async def select(request: SelectRequest) -> Decision:
        async with sessions.begin() as session:
            campaign = await session.get(Campaign, request.campaign_id)
            if campaign is None:
                raise HTTPException(404)
            features = np.array([arm.features for arm in request.arms])
            estimates, bonuses = scores(campaign, features)
            best, greedy = int(np.argmax(estimates + bonuses)), int(np.argmax(estimates))
            row = DecisionRow(
                decision_id=str(uuid.uuid4()),
                campaign_id=request.campaign_id,
                arm_id=request.arms[best].arm_id,
                features=features[best].tobytes(),
                estimate=float(estimates[best]),
                bonus=float(bonuses[best]),
                observations=campaign.observations,
            )
            session.add(row)
            return Decision(
                decision_id=row.decision_id,
                campaign_id=row.campaign_id,
                arm_id=row.arm_id,
                estimate=row.estimate,
                bonus=row.bonus,
                index=row.estimate + row.bonus,
                reason="index",
                greedy_arm_id=request.arms[greedy].arm_id,
                exploring=best != greedy,
                propensity=1.0,
                observations=row.observations,
            )

    @app.post("/reward")
    async def reward(request: RewardRequest) -> Receipt:
        async with sessions.begin() as session:
            row = await session.get(DecisionRow, request.decision_id)
            if row is None:
                raise HTTPException(404)
            known = await session.get(RewardRow, request.decision_id)
            if known is not None and known.reward != request.reward:
                raise HTTPException(409)
            campaign = await session.get_one(Campaign, row.campaign_id)
            sequence = campaign.observations + 1 if known is None else known.sequence
            if known is None:
                x, y = np.frombuffer(row.features), request.reward
                precision = np.frombuffer(campaign.precision).reshape(len(x), -1)
                campaign.precision = (precision + np.outer(x, x)).tobytes()
                campaign.moment = (np.frombuffer(campaign.moment) + y * x).tobytes()
                campaign.reward_squares += y * y
                campaign.observations = sequence
                session.add(RewardRow(decision_id=request.decision_id, reward=y, sequence=sequence))
            return Receipt(
                decision_id=row.decision_id,
                campaign_id=row.campaign_id,
                arm_id=row.arm_id,
                reward=request.reward,
                observations=sequence,
                duplicate=known is not None,
                learned=True,
            )

    return app


def main() -> None:
    """Serve on uvloop and httptools, as the service does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--database-url", required=True)
    options = parser.parse_args()
    serve(create_app(options.database_url), options.host, options.port)


if __name__ == "__main__":
    main()
