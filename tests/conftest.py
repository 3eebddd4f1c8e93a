"""Settings of the whole suite: the conformance ledger's guard, and how many examples property tests try."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

# `pytester` runs the guard on suites of its own.
pytest_plugins = ["ledger_guard", "pytester"]

# Examples are the same ones in CI. Deadlines measure the machine's load; a test's time is bounded by pytest-timeout.
# Shared machines generate slowly now and then; that is no property of the code.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _COMMON, max_examples=60)
settings.register_profile("ci", _COMMON, max_examples=60, derandomize=True, database=None)
# For a search at leisure: HYPOTHESIS_PROFILE=thorough make test
settings.register_profile("thorough", _COMMON, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))

# A shell starts background jobs with SIGINT ignored, and what they start inherits that: interrupts are tested, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
