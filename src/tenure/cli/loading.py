"""The app that a person names as `module:app`, and a database without an app."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure import Tenure
    from tenure.db.engine import Database
    from tenure.flow import Program


def load_app(named: str, database: str | None = None) -> Tenure:
    """The Tenure named `module:app`, on `database` when one is given. InvalidInput says what is not there."""
    from tenure.errors import InvalidInput

    module_name, _, attribute = named.partition(":")
    if not module_name or not attribute:
        raise InvalidInput(f"{named!r} names no app: write module:app, such as 'app:app'", field="app")
    return on_database(_attribute(_module(module_name), module_name, attribute), database)


def _module(name: str) -> Any:
    from tenure.errors import InvalidInput, TenureError

    if sys.path[:1] not in ([""], [os.getcwd()]):
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except TenureError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidInput(f"no module {name!r} (looked in {os.getcwd()} first)", field="app") from error
        raise InvalidInput(f"module {name!r} needs module {error.name!r}, which is not installed", "app") from error
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise InvalidInput(f"module {name!r} cannot be read: {error.msg} ({where})", field="app") from error
    except Exception as error:  # whatever a user's module raises while it is imported
        text = f"module {name!r} cannot be imported: {type(error).__name__}: {error}"
        raise InvalidInput(text, field="app") from error


def _attribute(module: Any, name: str, attribute: str) -> Tenure:
    from tenure import Tenure
    from tenure.errors import InvalidInput

    found = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Tenure):
        known = sorted(each for each, value in vars(module).items() if isinstance(value, Tenure))
        hint = f"; it has {', '.join(map(repr, known))}" if known else ""
        raise InvalidInput(f"module {name!r} has no Tenure named {attribute!r}{hint}", field="app")
    return found


def on_database(app: Tenure, url: str | None, artifacts: str | None = None) -> Tenure:
    """The app on another database: what the command line says goes before what the program says."""
    if url is None and artifacts is None:
        return app
    from dataclasses import replace

    from tenure.flow import Program
    from tenure.runtime import Runtime

    kept = app.settings
    app.settings = replace(kept, database_url=url or kept.database_url, artifacts=artifacts or kept.artifacts)
    app.program = Program(Runtime(app.settings), app.program.tools, app.program.planners)
    return app


@contextlib.contextmanager
def opened(database: str | None) -> Iterator[Program]:
    """A program without tools on an existing database: it reads and decides, and leaves what follows to the workers.

    DatabaseUnavailable where there is none: a look at the wrong folder makes no file there.
    """
    from tenure.errors import DatabaseUnavailable
    from tenure.flow import Program
    from tenure.runtime import Runtime
    from tenure.settings import load
    from tenure.tools import Registry

    settings = load(database_url=database)
    runtime = Runtime(settings)
    place = database_of(settings.database_url, settings.schema)
    if place.is_sqlite and not os.path.exists(place.name):
        raise DatabaseUnavailable(f"no database at {place.name}: give --database, or start a worker to make one")
    try:
        with explaining(place.name):
            yield Program(runtime, Registry())
    finally:
        runtime.close()


def database_of(url: str, schema: str = "tenure") -> Database:
    """A database that is not opened yet. SettingsError for a URL that cannot be read."""
    from tenure.db.engine import Database

    return Database(url, schema=schema)


@contextlib.contextmanager
def explaining(name: str) -> Iterator[None]:
    """What the driver raises inside the block becomes DatabaseUnavailable, which names the database."""
    from tenure.errors import DatabaseUnavailable

    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("sqlalchemy"):
            raise
        original = str(getattr(error, "orig", None) or error).strip()
        first = original.splitlines()[0] if original else type(error).__name__
        text = f"database {name}: {first}; give --database a file or a server that can be used"
        raise DatabaseUnavailable(text) from error
