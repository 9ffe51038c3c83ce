"""Structured logs: one JSON object per line on standard error, for our own lines, uvicorn's and other libraries'."""

import logging
import os
import sys
import time
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

REQUEST_ID_HEADER = b"x-request-id"
WARNING_SECONDS = 1.0
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request being answered; added to every line logged meanwhile."""


def configure(level: str) -> None:
    """Configure our own log lines, once per process and before the first one. level: debug, info, warning or error."""
    structlog.configure(
        processors=[*_shared_processors(), structlog.processors.format_exc_info, _renderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(_StandardError()),  # type: ignore[arg-type]  # all that it uses
    )


def uvicorn_configuration(level: str) -> dict[str, Any]:
    """A `logging.config.dictConfig` by which uvicorn and other libraries log in the same format, to the same place."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"structured": {"()": "prudent.observability.logs.formatter"}},
        "filters": {"seldom": {"()": "prudent.observability.logs.Seldom"}},
        "handlers": {
            "stderr": {"class": "logging.StreamHandler", "formatter": "structured", "stream": "ext://sys.stderr"}
        },
        "root": {"handlers": ["stderr"], "level": "WARNING" if level in {"debug", "info"} else level.upper()},
        "loggers": {"uvicorn": {"level": level.upper()}, "uvicorn.error": {"filters": ["seldom"]}},
    }


class Seldom(logging.Filter):
    """Lets each warning pass once a second: anybody can send what uvicorn warns of, and must not fill the disk."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record passes."""
        if record.levelno != logging.WARNING:
            return True
        now = time.monotonic()
        is_due = now - self._passed.get(record.msg, float("-inf")) >= WARNING_SECONDS
        if is_due:
            self._passed[record.msg] = now
        return is_due


def formatter() -> structlog.stdlib.ProcessorFormatter:
    """Formats records of the standard library's logging like our own lines."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_logger_name, *_shared_processors()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _renderer(),
        ],
    )


class _StandardError:
    """What cannot be written there is lost, as it is with the standard library's logging.

    The disk of a log may be full, and who reads it may be gone: neither must stop what was about to be said.
    """

    def write(self, text: str) -> None:
        """Write, if that is possible."""
        with suppress(OSError):
            sys.stderr.write(text)

    def flush(self) -> None:
        """The same."""
        with suppress(OSError):
            sys.stderr.flush()


def _shared_processors() -> list[Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_process_and_request,
    ]


def _add_process_and_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event["process"] = os.getpid()
    current = request_id.get()
    if current is not None:
        event["request_id"] = current
    return event


def _renderer() -> Processor:
    return structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
