"""Settings come from PRUDENT_* variables; what is wrong with one is said in a line that an operator understands."""

import os
import subprocess
import sys

import pytest
from pydantic import ValidationError

from prudent.settings import InvalidSettingError, Limits, Settings, read_settings
from tests.servers import clean_environment


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests."""
    for name in os.environ:
        if name.startswith("PRUDENT_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PORT", "70000", "PRUDENT_PORT must be at most 65535, not '70000'"),
        ("PORT", "http", "PRUDENT_PORT must be a whole number, not 'http'"),
        ("WORKERS", "0", "PRUDENT_WORKERS must be at least 1, not '0'"),
        ("BODY_BYTES_MAX", "-1", "PRUDENT_BODY_BYTES_MAX must be at least 1, not '-1'"),
        ("DEMO", "maybe", "PRUDENT_DEMO must be true or false, not 'maybe'"),
        ("LOG_LEVEL", "loud", "PRUDENT_LOG_LEVEL must be one of 'debug', 'info', 'warning' or 'error', not 'loud'"),
        (
            "METRICS_CAMPAIGNS",
            "a, b c",
            "PRUDENT_METRICS_CAMPAIGNS must be ids of campaigns, separated by commas: 'b c'",
        ),
        (
            "FLAG_ORIGINS",
            "https://a.example, https://b.example/",
            "PRUDENT_FLAG_ORIGINS must be origins such as https://shop.example, separated by commas: 'https://b.example/'",
        ),
        ("FLAG_ORIGINS", "*", "PRUDENT_FLAG_ORIGINS must be origins such as https://shop.example, separated by commas"),
        ("METRICS_CAMPAIGNS", "a," * 21, "PRUDENT_METRICS_CAMPAIGNS may name at most 20 campaigns"),
        ("SESSION_SECRET", "hunter2", "PRUDENT_SESSION_SECRET must have at least 32 characters"),
        ("BATCH_SIZE", "1", "PRUDENT_BATCH_SIZE is not a setting"),
        ("LIMITS", "{}", "PRUDENT_LIMITS is not a setting"),
    ],
)
def test_what_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    """A typing mistake would be ignored, or answered with a page of Python."""
    monkeypatch.setenv(f"PRUDENT_{name}", value)
    with pytest.raises(InvalidSettingError) as refused:
        read_settings()
    assert str(refused.value).startswith(message)
    assert "hunter2" not in str(refused.value)


def test_a_command_says_it_in_one_line() -> None:
    """An operator would get a page of Python."""
    done = subprocess.run(
        [sys.executable, "-m", "prudent", "serve"],
        env=clean_environment({"PRUDENT_PORT": "http"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "prudent: PRUDENT_PORT must be a whole number, not 'http'\n"


def test_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An option of the command line would lose against a variable, or an empty variable be a value."""
    monkeypatch.setenv("PRUDENT_PORT", "9000")
    monkeypatch.setenv("PRUDENT_HOST", "")
    monkeypatch.setenv("PRUDENT_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("PRUDENT_API_KEY", "of the command line")
    monkeypatch.setenv("PRUDENT_QUEUE_ITEMS_MAX", "7")
    found = read_settings(workers=3)
    assert (found.port, found.host, found.log_level, found.workers) == (9000, "127.0.0.1", "debug", 3)
    assert found.limits == Limits(queue_items_max=7)
    assert read_settings(port=0).port == 0


def test_settings_do_not_change() -> None:
    """Two parts of the service would see different settings."""
    settings = Settings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.port = 1  # type: ignore[misc]  # the point of the test
    with pytest.raises(ValidationError, match="frozen"):
        settings.limits.body_bytes_max = 1  # type: ignore[misc]  # the point of the test


def test_help_does_not_wait_for_the_settings() -> None:
    """`prudent --help` would take a second, as it does where everything is imported."""
    heavy = {"pydantic", "pydantic_settings", "numpy", "sqlalchemy", "fastapi"}
    code = f"import sys, prudent.__main__; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
