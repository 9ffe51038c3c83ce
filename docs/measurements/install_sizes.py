"""What an installation brings: `python -m docs.measurements.install_sizes`. It downloads, as `pip install` does.

Installs the client alone, the service, and the service with each extra into environments of their own, and prints how
many packages and megabytes each has (byte code left out), and the five largest.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENT = "./client"
INSTALLATIONS = {
    "prudent-client": [CLIENT],
    "prudent": [CLIENT, "."],
    **{
        f"prudent[{extra}]": [CLIENT, f".[{extra}]"]
        for extra in ("postgres", "simulator", "parquet", "telemetry", "mcp")
    },
}
LARGEST = 5


def main() -> None:
    """Print a line for each installation."""
    print(f"{'installation':20} {'packages':>8} {'MB':>6}  largest, in MB")  # noqa: T201
    for name, sources in INSTALLATIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            packages, sizes = installed(sources, Path(folder))
        largest = sorted(sizes.items(), key=lambda item: -item[1])[:LARGEST]
        shown = ", ".join(f"{top} {size:.0f}" for top, size in largest)
        print(f"{name:20} {packages:8} {sum(sizes.values()):6.0f}  {shown}")  # noqa: T201


def installed(sources: list[str], folder: Path) -> tuple[int, dict[str, float]]:
    """Install these; the number of distributions, and megabytes by what lies at the top of site-packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-compile", *sources], cwd=ROOT, check=True)  # noqa: S603
    listed = subprocess.run([*pip, "list", "--format", "json"], capture_output=True, check=True)  # noqa: S603
    (packages,) = folder.glob("lib/python3*/site-packages")
    sizes = {
        top.name: sum(path.stat().st_size for path in ([top] if top.is_file() else top.rglob("*")) if path.is_file())
        for top in packages.iterdir()
    }
    return len(json.loads(listed.stdout)), {name: size / 1e6 for name, size in sizes.items()}


if __name__ == "__main__":
    main()
