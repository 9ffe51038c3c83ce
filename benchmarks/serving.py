"""How what we compare with is served: as the service is, so that only the application differs."""

from typing import Any

import uvicorn


def serve(application: Any, host: str, port: int, **options: Any) -> None:
    """Serve an application, or the one that this name stands for, until a signal comes."""
    uvicorn.run(
        application,
        host=host,
        port=port,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
        **options,
    )
