"""Fast path for the routes that are called thousands of times a second: it skips the framework's routing, not checks.

FastAPI matches the path, resolves dependencies and opens two exit stacks for every request; for a route that
takes only the request, all of that has no effect, and it is half of the event loop's work.
"""

from collections.abc import Awaitable, Callable, Iterable

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send


class FastPath:
    """Serves POST to the given routes, whose endpoints take only the request; passes everything else to the app.

    The routes stay registered with the framework: for the documentation, for other methods, and as the endpoints
    that are called. Errors are handled by the application's own handlers.
    """

    def __init__(self, app: ASGIApp, application: FastAPI, routes: Iterable[APIRoute]) -> None:
        self._app = app
        self._application = application
        self._routes = {route.path: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        route = None
        if scope["type"] == "http" and scope["method"] == "POST":
            route = self._routes.get(scope["path"])
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        request = Request(scope, receive, send)
        try:
            response = await route.endpoint(request)
        except Exception as error:
            answer = self._handler_of(error)
            if answer is None:
                raise
            response = await answer(request, error)
        await response(scope, receive, send)

    def _handler_of(self, error: Exception) -> Callable[[Request, Exception], Awaitable[Response]] | None:
        """The handler of the nearest class, except Exception's: that one belongs to the outermost layer, which logs."""
        handlers = self._application.exception_handlers
        for kind in type(error).__mro__:
            if kind is not Exception and kind in handlers:
                return handlers[kind]  # type: ignore[return-value]  # all of ours are asynchronous
        return None


def post_routes(router: APIRouter) -> list[APIRoute]:
    """The routes of a router that has only POST routes."""
    return [route for route in router.routes if isinstance(route, APIRoute)]
