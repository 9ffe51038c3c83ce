"""The service with a cap on its SQLite file that can be changed while it runs: a disk that fills up, and is cleared.

The environment's TRUST_PAGES_FILE names a file that holds the most pages; SQLite raises it to what is in use.
"""

import os
from pathlib import Path

from sqlalchemy import Connection, Engine, event

from prudent.__main__ import main

PAGES_FILE = "TRUST_PAGES_FILE"
UNLIMITED = 2**30


def cap(connection: Connection) -> None:
    """Apply what the file says."""
    pages = int(Path(os.environ[PAGES_FILE]).read_text(encoding="ascii"))
    connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")


if __name__ == "__main__":
    event.listen(Engine, "begin", cap)
    main()
