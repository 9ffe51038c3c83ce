"""OpenAPI and its interactive page, which works without a network: a package ships its JavaScript."""

from pathlib import Path
from typing import Any

import fastapi_offline
from fastapi import FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.staticfiles import StaticFiles

from prudent.api.replies import Problem
from prudent.api.requests import EXAMPLES
from prudent.security.keys import role_needed

DESCRIPTION = """
Risk-aware contextual bandits: choose one of several arms, learn from the rewards, and **take bad outcomes into account,
not only the average**.

Create a campaign, `POST /select` to get an arm, `POST /reward` to report the outcome. Every error is
`application/problem+json`.

If API keys are in use, send one as `X-API-Key` or as `Authorization: Bearer`. A reader may GET, a writer may also send
selects, rewards and observations, and an admin may do everything.
"""


def install(app: FastAPI) -> None:
    """Serve ``/openapi.json`` and ``/docs``."""
    static = Path(fastapi_offline.__file__).parent / "static"
    app.mount("/docs/static", StaticFiles(directory=static), name="docs-static")

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        root = request.scope.get("root_path", "")
        return get_swagger_ui_html(
            openapi_url=f"{root}/openapi.json",
            title="Prudent: API",
            swagger_js_url=f"{root}/docs/static/swagger-ui-bundle.js",
            swagger_css_url=f"{root}/docs/static/swagger-ui.css",
            swagger_favicon_url=f"{root}/docs/static/favicon.png",
        )

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
