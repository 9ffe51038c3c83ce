"""Messages between processes arrive whole and in order, however they are cut."""

import asyncio
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prudent.errors import (
    CampaignBusyError,
    ConflictError,
    DatabaseUnavailableError,
    InvalidCommandError,
    LostFileError,
    NotFoundError,
    OverloadedError,
    QuarantinedError,
    UnknownOutcomeError,
)
from prudent.ledger.commands import Select
from prudent.processes.wire import Wire


class Sink(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.writes = 0

    def writelines(self, list_of_data: Any) -> None:
        self.written += b"".join(list_of_data)
        self.writes += 1

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return len(self.written)


def test_messages_of_one_turn_travel_together_and_arrive_in_any_pieces() -> None:
    """A read may end anywhere, also inside a length."""

    async def run() -> None:
        sink, received = Sink(), list[Any]()
        sender, receiver = Wire(received.extend, lambda: None), Wire(received.extend, lambda: None)
        sender.connection_made(sink)
        for number in range(3):
            sender.send((number, "x" * number))
        await asyncio.sleep(0)
        assert (sink.writes, sender.unsent_bytes) == (1, len(sink.written))
        sender.send("last")
        await asyncio.sleep(0)
        for place in range(len(sink.written)):
            receiver.data_received(sink.written[place : place + 1])
        receiver.data_received(sink.written)
        assert received == [(0, ""), (1, "x"), (2, "xx"), "last"] * 2
        sender.connection_lost(None)
        sender.send("into nothing")
        await asyncio.sleep(0)
        assert (sink.writes, sender.unsent_bytes) == (2, 0)

    asyncio.run(run())


def test_a_connection_ends_once_at_both_ends(tmp_path: Path) -> None:
    """Whoever waits for answers from an end that is gone must be told."""

    async def run() -> None:
        ends: list[str] = []
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(
            lambda: Wire(ends.extend, lambda: ends.append("server")), str(tmp_path / "s")
        )
        transport, wire = await loop.create_unix_connection(
            lambda: Wire(lambda _: None, lambda: ends.append("client")), str(tmp_path / "s")
        )
        wire.send("hello")
        while not ends:
            await asyncio.sleep(0.01)
        transport.close()
        while len(ends) < 3:
            await asyncio.sleep(0.01)
        server.close()
        assert (ends[0], sorted(ends[1:])) == ("hello", ["client", "server"])

    asyncio.run(asyncio.wait_for(run(), 10))


def _command(message: str) -> Exception:
    return InvalidCommandError(message, field="features")


@pytest.mark.parametrize(
    "made",
    [
        NotFoundError,
        ConflictError,
        _command,
        OverloadedError,
        CampaignBusyError,
        DatabaseUnavailableError,
        LostFileError,
        QuarantinedError,
        UnknownOutcomeError,
    ],
)
def test_errors_are_the_same_at_the_other_end(made: Callable[[str], Exception]) -> None:
    """The answer over HTTP is made of their type, message, field and seconds."""
    error = made("why")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # of our own
    assert (type(copy), vars(copy), str(copy)) == (type(error), vars(error), str(error))


def test_a_command_is_the_same_at_the_other_end() -> None:
    """Its digest is what makes a repeat a repeat."""
    matrix = np.arange(6.0).reshape(2, 3)
    command = Select("c", "d", [("a", matrix[0]), ("b", matrix[1])], matrix)
    assert pickle.loads(pickle.dumps(command)).digest() == command.digest()  # noqa: S301  # of our own
