"""Settling what has ended: together, and one by one where one result would take its neighbours down."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tenure import flow
from tenure.context import Hold
from tenure.db.engine import Kept
from tenure.errors import DatabaseError
from tenure.flow import Completed, Failed, Outcome, Planned, Program, Settled, Settlement

log = logging.getLogger("tenure.worker")


def settle(program: Program, owner: str, ended: Sequence[tuple[Hold, Outcome]], kept: Kept) -> Settled:
    """Ends the leases. DatabaseError: nothing is known, settle them again. Whatever else goes wrong is logged."""
    wanted = [Settlement(hold.lease, outcome) for hold, outcome in ended if _is_told(hold, outcome)]
    if not wanted:
        return Settled()
    try:
        return flow.settle(program, owner, wanted, kept)
    except DatabaseError:
        raise
    except Exception:  # one result that cannot be written must not take its neighbours down
        log.exception("settlement failed; settling one by one")
    settled = Settled()
    for each in wanted:
        settled.add(_alone(program, owner, each))
    return settled


def _alone(program: Program, owner: str, each: Settlement) -> Settled:
    try:
        return flow.settle(program, owner, [each])
    except DatabaseError:
        raise
    except Exception:
        log.exception("settlement failed", extra={"job_id": each.lease.job_id})
    try:
        constant = Failed("settlement_failed", "the result could not be recorded", "terminal")
        return flow.settle(program, owner, [Settlement(each.lease, constant)])
    except DatabaseError:
        raise
    except Exception:  # not even that: the lease runs out, and rescue ends the job or quarantines it
        log.exception("settlement given up", extra={"job_id": each.lease.job_id})
        return Settled()


def _is_told(hold: Hold, outcome: Outcome) -> bool:
    """An attempt that lost its lease and was stopped has nothing to say; one that finished late is put on record."""
    return hold.stop not in ("lost", "away") or isinstance(outcome, (Completed, Planned))
