"""Where commands find campaigns: in a database, or through a server."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from pydantic import ValidationError
from sqlalchemy import Engine

from prudent.api.campaigns import LIST_MAX
from prudent.api.problems import describe_validation
from prudent.api.rendering import render_campaign
from prudent.campaigns import CampaignConfiguration, InvalidConfigurationError
from prudent.campaigns.values import RepeatedNameError, refuse_repeated_names
from prudent.cli.console import fail, refuse_both
from prudent.cli.database import opened_database
from prudent.cli.server import opened_server, refuse_problem
from prudent.errors import CommandError
from prudent.ledger.administration import Administration, find_record, list_records
from prudent.ledger.commands import ON_COMMAND_LINE, CampaignStatus, ChangeCampaign, CreateCampaign, DeleteCampaign
from prudent.ledger.trail import Authored, execute

PAGE_ROWS = 100
Json = dict[str, Any]


class Database:
    """The campaigns of a database, changed the way a worker changes them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self) -> Iterator[Json]:
        """Every campaign, in the order of their ids."""
        after = ""
        while True:
            with self._engine.connect() as connection:
                records = list_records(connection, after=after, limit=PAGE_ROWS)
            yield from map(render_campaign, records)
            if len(records) < PAGE_ROWS:
                return
            after = records[-1].row.campaign_id or ""

    def one(self, campaign_id: str) -> Json:
        """A campaign; ends the program if there is none."""
        with self._engine.connect() as connection:
            record = find_record(connection, campaign_id)
        if record is None:
            fail(f"no such campaign: {campaign_id}; see prudent campaigns list")
        return render_campaign(record)

    def create(self, configuration: bytes) -> Json:
        """Create the campaign that a body of `POST /campaigns` describes; it is there already if that is the same."""
        try:
            requested = CampaignConfiguration.model_validate_json(configuration)
            refuse_repeated_names(configuration, requested)
        except ValidationError as error:
            fail(describe_validation(error)["detail"])
        except RepeatedNameError as error:
            fail(f"{error.name} appears twice in one object")
        try:
            self._administer(CreateCampaign(requested))
        except InvalidConfigurationError as error:
            fail(f"{error.field}: {error.message}")
        return self.one(requested.campaign_id)

    def set_status(self, campaign_id: str, status: CampaignStatus) -> None:
        """Change its status."""
        self._administer(ChangeCampaign(campaign_id, status=status))

    def delete(self, campaign_id: str) -> None:
        """Delete it; a server removes its rows."""
        self._administer(DeleteCampaign(campaign_id))

    def _administer(self, command: Administration) -> None:
        try:
            with self._engine.begin() as connection:
                execute(Authored(command, ON_COMMAND_LINE), connection, time.time_ns() // 1_000)
        except CommandError as error:
            fail(error.message)


class Server:
    """The campaigns of a server."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def all(self) -> Iterator[Json]:
        """Every campaign, in the order of their ids."""
        parameters: dict[str, str | int] = {"limit": LIST_MAX}
        while True:
            page = self._ask("GET", "/campaigns", parameters).json()
            yield from page["items"]
            if page["next_cursor"] is None:
                return
            parameters["cursor"] = page["next_cursor"]

    def one(self, campaign_id: str) -> Json:
        """A campaign; ends the program if there is none."""
        found: Json = self._ask("GET", f"/campaigns/{campaign_id}").json()
        return found

    def create(self, configuration: bytes) -> Json:
        """Create the campaign that a body of `POST /campaigns` describes; it is there already if that is the same."""
        reply = self._client.post("/campaigns", content=configuration, headers={"Content-Type": "application/json"})
        refuse_problem(reply)
        created: Json = reply.json()
        return created

    def set_status(self, campaign_id: str, status: CampaignStatus) -> None:
        """Change its status."""
        self._ask("PATCH", f"/campaigns/{campaign_id}", body={"status": status})

    def delete(self, campaign_id: str) -> None:
        """Delete it."""
        self._ask("DELETE", f"/campaigns/{campaign_id}", {"confirm": campaign_id})

    def _ask(
        self, method: str, path: str, parameters: dict[str, str | int] | None = None, body: Json | None = None
    ) -> httpx.Response:
        reply = self._client.request(method, path, params=parameters, json=body)
        refuse_problem(reply)
        return reply


@contextmanager
def opened_source(
    database_url: str | None, url: str | None, api_key: str | None, *, read_only: bool = False
) -> Iterator[Database | Server]:
    """The server if one is named, else the database; ends the program with a one-line message if it cannot be used."""
    refuse_both(database_url, url)
    if url is not None:
        with opened_server(url, api_key) as client:
            yield Server(client)
    else:
        with opened_database(database_url, read_only=read_only) as engine:
            yield Database(engine)
