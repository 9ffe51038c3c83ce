"""A typed client of Prudent: `Client`, and `AsyncClient` for asyncio, with safe retries.

It depends on httpx and pydantic only, and on nothing of the service.
"""

from prudent_client.asynchronous import AsyncClient
from prudent_client.errors import (
    AuthenticationError,
    ClientError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    RejectedError,
    UnavailableError,
    UnexpectedReplyError,
    UnreachableError,
)
from prudent_client.identifiers import new_id
from prudent_client.models import (
    Arm,
    ArmModel,
    Campaign,
    Change,
    Correction,
    Decision,
    Erasure,
    EventReceipt,
    EventReward,
    Health,
    Model,
    ObservationsReceipt,
    Receipt,
    ScoredArm,
    StoredDecision,
)
from prudent_client.requests import Event, Observation, Reward, Select
from prudent_client.retries import Retries
from prudent_client.synchronous import Client

__all__ = [
    "Arm",
    "ArmModel",
    "AsyncClient",
    "AuthenticationError",
    "Campaign",
    "Change",
    "Client",
    "ClientError",
    "ConflictError",
    "Correction",
    "Decision",
    "Erasure",
    "Event",
    "EventReceipt",
    "EventReward",
    "Health",
    "InvalidRequestError",
    "Model",
    "NotFoundError",
    "Observation",
    "ObservationsReceipt",
    "PermissionDeniedError",
    "Receipt",
    "RejectedError",
    "Retries",
    "Reward",
    "ScoredArm",
    "Select",
    "StoredDecision",
    "UnavailableError",
    "UnexpectedReplyError",
    "UnreachableError",
    "new_id",
]
