from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.flow.world import World, make


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    made = make(database_url)
    yield made
    made.check()
    made.program.runtime.close()
