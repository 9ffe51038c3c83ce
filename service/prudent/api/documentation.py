"""OpenAPI and its interactive page, which works without a network: a package ships its JavaScript."""

from html import escape
from pathlib import Path
from typing import Any

import fastapi_offline
import orjson
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from pydantic.json_schema import models_json_schema

from prudent.api.assets import Asset, Assets
from prudent.api.replies import Problem
from prudent.api.requests import EXAMPLES
from prudent.security.keys import role_needed

DESCRIPTION = """
Risk-aware contextual bandits: choose one of several arms, learn from the rewards, and **take bad outcomes into account,
not only the average**.

Create a campaign, `POST /select` to get an arm, `POST /reward` to report the outcome. Every error is
`application/problem+json`.

If API keys are in use, send one as `X-API-Key` or as `Authorization: Bearer`. An evaluator may only evaluate
feature flags, a reader may GET, a writer may do both and send selects, rewards and observations, and an admin may do
everything.
"""


POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # the page's library sets styles
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="{root}{style}">
<link rel="icon" href="{root}{icon}">
<title>Prudent: API</title>
</head>
<body>
<div id="swagger-ui"></div>
<script src="{root}{library}"></script>
<script src="{root}{start}" data-schema="{root}/openapi.json"></script>
</body>
</html>
"""
_START = b"""SwaggerUIBundle({
  url: document.currentScript.dataset.schema,
  dom_id: "#swagger-ui",
  layout: "BaseLayout",
  deepLinking: true,
  showExtensions: true,
  showCommonExtensions: true,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIBundle.SwaggerUIStandalonePreset],
});
"""
_FILES = ("swagger-ui.css", "favicon.png", "swagger-ui-bundle.js")


def install(app: FastAPI) -> None:
    """Serve ``/openapi.json`` and ``/docs``."""
    static = Path(fastapi_offline.__file__).parent / "static"
    assets = Assets("/docs/static", [static / name for name in _FILES])
    assets.add("start.js", Asset(_START, "text/javascript"))
    addresses = {key: assets.address(name) for key, name in zip(("style", "icon", "library"), _FILES, strict=True)}
    schemas: dict[str, Asset] = {}

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        root = escape(request.scope.get("root_path", ""))
        text = _PAGE.format(root=root, start=assets.address("start.js"), **addresses)
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"})

    @app.get("/docs/static/{name}", include_in_schema=False)
    async def files(name: str, request: Request) -> Response:
        return assets.respond(name, request)

    @app.get("/openapi.json", include_in_schema=False)
    async def schema(request: Request) -> Response:
        root = request.scope.get("root_path", "")  # of the server's configuration, so there is one
        if root not in schemas:
            servers = {"servers": [{"url": root}]} if root else {}
            schemas[root] = Asset(orjson.dumps(app.openapi() | servers), "application/json")
        return schemas[root].respond(request)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _build(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the schema


def _build(app: FastAPI) -> dict[str, Any]:
    """FastAPI's schema, with the bodies that our routes read by themselves."""
    schema = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
    models = [(model, "validation") for model in (*EXAMPLES, Problem)]
    _, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]  # the mode is a literal
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    for name, definition in definitions["$defs"].items():
        components.setdefault(name, definition)
    _declare_keys(schema)
    return schema


def _declare_keys(schema: dict[str, Any]) -> None:
    """Declare how keys are sent, and which role each operation needs."""
    schema["components"]["securitySchemes"] = {
        "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        "bearer": {"type": "http", "scheme": "bearer"},
    }
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            role = role_needed(method.upper(), path)
            if role is None:
                operation["security"] = []
            else:
                operation["security"] = [{"apiKey": []}, {"bearer": []}]
                operation["description"] = f"{operation.get('description', '')}\n\nNeeds the role `{role}`.".strip()
