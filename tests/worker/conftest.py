from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure import Tenure
from tests.opened import database as database
from tests.opened import postgres as postgres
from tests.worker.scene import Notes, Scene


@pytest.fixture
def make_scene(tmp_path: Path) -> Iterator[Callable[[str], Scene]]:
    """A function from a database's URL to a `Scene`; all share notes and artifacts."""
    made: list[Tenure] = []

    def make(url: str) -> Scene:
        made.append(Tenure(url, artifacts=str(tmp_path / "artifacts")))
        return Scene(made[-1], url, Notes(tmp_path / "notes"))

    yield make
    for app in made:
        app.close()


@pytest.fixture
def scene(database_url: str, make_scene: Callable[[str], Scene]) -> Scene:
    return make_scene(database_url)
