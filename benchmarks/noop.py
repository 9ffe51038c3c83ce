"""The floor: FastAPI reading the same requests and sending replies of the same size, doing nothing in between.

`/select` and `/reward` read the body as bytes and send fixed bytes: what any FastAPI service must spend.
`/parsing/select` and `/parsing/reward` are written as the framework's tutorial would: the body becomes a pydantic
model, the reply comes from one.
"""

import argparse
import os
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from benchmarks.serving import serve

SELECT_BYTES, REWARD_BYTES = "NOOP_SELECT_BYTES", "NOOP_REWARD_BYTES"


class Arm(BaseModel):
    arm_id: str
    features: list[float]


class SelectRequest(BaseModel):
    campaign_id: str
    arms: list[Arm]


class SelectReply(BaseModel):
    decision_id: str
    padding: str


class RewardRequest(BaseModel):
    decision_id: str
    reward: float


class RewardReply(BaseModel):
    padding: str


def padded(reply: dict[str, Any], size: int) -> dict[str, Any]:
    """The reply with a `padding` that makes its JSON `size` bytes long, or as near to it as a longer one gets."""
    bare = len(orjson.dumps({**reply, "padding": ""}))
    return {**reply, "padding": "-" * max(size - bare, 0)}


def create_app(select_bytes: int, reward_bytes: int) -> FastAPI:
    """The application; the arguments are the sizes of the replies' bodies."""
    app = FastAPI()
    selected = padded({"decision_id": "0" * 36}, select_bytes)
    rewarded = padded({}, reward_bytes)
    selected_json, rewarded_json = orjson.dumps(selected), orjson.dumps(rewarded)

    @app.get("/health/ready")
    async def ready() -> dict[str, str]:
        return {"status": "ready"}

    @app.post("/select")
    async def select(request: Request) -> Response:
        await request.body()
        return Response(selected_json, media_type="application/json")

    @app.post("/reward")
    async def reward(request: Request) -> Response:
        await request.body()
        return Response(rewarded_json, media_type="application/json")

    @app.post("/parsing/select")
    async def parsing_select(request: SelectRequest) -> SelectReply:  # noqa: ARG001 (parsed, not used)
        return SelectReply(**selected)

    @app.post("/parsing/reward")
    async def parsing_reward(request: RewardRequest) -> RewardReply:  # noqa: ARG001 (parsed, not used)
        return RewardReply(**rewarded)

    return app


def create_app_from_environment() -> FastAPI:
    """For uvicorn's worker processes."""
    return create_app(int(os.environ[SELECT_BYTES]), int(os.environ[REWARD_BYTES]))


def main() -> None:
    """Serve on uvloop and httptools, as the service does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--database-url", help="accepted and ignored: the service has it")
    parser.add_argument("--select-bytes", type=int, default=300, help="size of the reply to select")
    parser.add_argument("--reward-bytes", type=int, default=160, help="size of the reply to reward")
    options = parser.parse_args()
    os.environ[SELECT_BYTES], os.environ[REWARD_BYTES] = str(options.select_bytes), str(options.reward_bytes)
    application = "benchmarks.noop:create_app_from_environment"
    serve(application, options.host, options.port, factory=True, workers=options.workers)


if __name__ == "__main__":
    main()
