"""What all tests share: hypothesis tries the same examples in every run.

``pytest --hypothesis-profile=explore`` draws new ones.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile("repeatable")
