"""The way of the requests that come thousands of times a second: past the framework's routing, not past its checks.

FastAPI matches the path, resolves dependencies and opens two exit stacks for every request; for a route that takes
nothing but the request itself all of that has no effect, and it is half of the event loop's work.
"""

from collections.abc import Awaitable, Callable, Iterable

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send


class HotRoutes:
    """Serves POST to the given routes, whose endpoints take the request alone; everything else goes on to the app.

    The routes stay registered with the framework: for the documentation, for other methods, and as what is called.
    Errors are answered by the application's own handlers.
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
        """The handler of the nearest class; that of Exception itself belongs to the outermost layer, which logs."""
        handlers = self._application.exception_handlers
        for kind in type(error).__mro__:
            if kind is not Exception and kind in handlers:
                return handlers[kind]  # type: ignore[return-value]  # all of ours are asynchronous
        return None


def hot_routes(router: APIRouter) -> list[APIRoute]:
    """The routes of a router that takes nothing but POST."""
    return [route for route in router.routes if isinstance(route, APIRoute)]
