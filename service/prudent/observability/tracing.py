"""OpenTelemetry spans of requests. Needs the extra `telemetry`, so import it only where tracing is on.

OpenTelemetry's own variables (OTEL_...) configure where spans are sent, how many are kept, and the service's name.
"""

from collections.abc import Iterable
from os import environ

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.propagators.textmap import Getter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prudent.observability.logs import REQUEST_ID_HEADER

EXPORT_SECONDS_MAX = 2.0
"""Unless OTEL_EXPORTER_OTLP_TIMEOUT is set. A stop waits for the last spans, even if the collector is gone."""
Headers = Iterable[tuple[bytes, bytes]]


class _HeaderGetter(Getter[Headers]):
    """Reads ASGI's headers: pairs of bytes, names in lower case."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        """All values of a header."""
        wanted = key.lower().encode("latin-1")
        return [value.decode("latin-1") for name, value in carrier if name == wanted] or None

    def keys(self, carrier: Headers) -> list[str]:
        """Names of all headers."""
        return [name.decode("latin-1") for name, _ in carrier]


_GETTER = _HeaderGetter()


def create_tracer_provider() -> TracerProvider:
    """Sends spans in the background, by OTLP over HTTP. Shutting it down sends the remaining ones."""
    own = Resource.create({"service.name": "prudent"})
    provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()))
    seconds = float(environ.get("OTEL_EXPORTER_OTLP_TIMEOUT") or EXPORT_SECONDS_MAX)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=seconds)))
    return provider


class TraceRequests:
    """A span for each request, named after its route's template, and a child of the client's span if it sends one."""

    def __init__(self, app: ASGIApp, provider: TracerProvider) -> None:
        self._app = app
        self._tracer = provider.get_tracer("prudent")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve within a span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = extract(scope["headers"], getter=_GETTER)
        method: str = scope["method"]
        with self._tracer.start_as_current_span(method, context, SpanKind.SERVER) as span:
            span.set_attribute("http.request.method", method)

            async def watch(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _describe(span, message)
                await send(message)

            try:
                await self._app(scope, receive, watch)
            finally:
                route = getattr(scope.get("route"), "path", None)
                if route is not None:  # known only now; the path itself would contain ids
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)


def _describe(span: Span, response: Message) -> None:
    status: int = response["status"]
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))
    for name, value in response["headers"]:
        if name == REQUEST_ID_HEADER:
            span.set_attribute("prudent.request_id", value.decode("ascii"))
