"""Structured logs: one JSON object per line on standard error, for our own lines, uvicorn's and other libraries'."""

import itertools
import logging
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

REQUEST_ID_HEADER = b"x-request-id"
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request being answered; added to every line logged meanwhile."""
_SANE_ID = re.compile(rb"[A-Za-z0-9._~+/=:@-]{1,128}")


def request_ids() -> Callable[[Iterable[tuple[bytes, bytes]]], str]:
    """A function from a request's headers to its id: the client's or the proxy's if it is well-formed, else a new one.

    A new id is a random part per process and a counter: a random id per request would take ten times as long.
    """
    process, numbers = secrets.token_hex(8), itertools.count(1)

    def of(headers: Iterable[tuple[bytes, bytes]]) -> str:
        for name, value in headers:
            if name == REQUEST_ID_HEADER and _SANE_ID.fullmatch(value):
                return value.decode("ascii")
        return f"{process}-{next(numbers):x}"

    return of


def configure(level: str) -> None:
    """Configure our own log lines, once per process and before the first one. level: debug, info, warning or error."""
    structlog.configure(
        processors=[*_shared_processors(), structlog.processors.format_exc_info, _renderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )


def uvicorn_configuration(level: str) -> dict[str, Any]:
    """A `logging.config.dictConfig` by which uvicorn and other libraries log in the same format, to the same place."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"structured": {"()": "prudent.observability.logs.formatter"}},
        "handlers": {
            "stderr": {"class": "logging.StreamHandler", "formatter": "structured", "stream": "ext://sys.stderr"}
        },
        "root": {"handlers": ["stderr"], "level": "WARNING" if level in {"debug", "info"} else level.upper()},
        "loggers": {"uvicorn": {"level": level.upper()}},
    }


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
