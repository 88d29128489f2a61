"""Projects: working areas that several sessions share, with settings and the latest output."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tenure.db.clock import now
from tenure.db.inserting import insert_if_absent
from tenure.db.reading import columns_of, many, one
from tenure.db.schema import project_contexts
from tenure.db.tx import Tx
from tenure.records import Project, RowKey

_p = project_contexts.c


def _this(key: RowKey) -> sa.ColumnElement[bool]:
    return sa.and_(_p.tenant_id == key.tenant_id, _p.project_id == key.id)


def ensure(tx: Tx, key: RowKey) -> None:
    """Creates the project unless it is there."""
    values = {"tenant_id": key.tenant_id, "project_id": key.id, "created_at": now(), "updated_at": now()}
    tx.execute(insert_if_absent(project_contexts).values(values))


def get(tx: Tx, key: RowKey) -> Project | None:
    """The project as it is, without a lock."""
    return one(Project, tx.first(sa.select(*columns_of(project_contexts, Project)).where(_this(key))))


def set_settings(tx: Tx, key: RowKey, settings: dict[str, Any]) -> None:
    """Replaces the settings as a new version."""
    values = {"settings": settings, "settings_version": _p.settings_version + 1, "updated_at": now()}
    tx.execute(sa.update(project_contexts).where(_this(key)).values(values))


def set_latest_output(tx: Tx, key: RowKey, artifact_id: str) -> None:
    """Records which artifact is the project's latest output."""
    values = {"latest_output_file_id": artifact_id, "updated_at": now()}
    tx.execute(sa.update(project_contexts).where(_this(key)).values(values))


def listed(tx: Tx, tenant_id: str, limit: int = 50) -> list[Project]:
    """Projects by id."""
    statement = (
        sa.select(*columns_of(project_contexts, Project))
        .where(_p.tenant_id == tenant_id)
        .order_by(_p.project_id)
        .limit(limit)
    )
    return many(Project, tx.rows(statement))
