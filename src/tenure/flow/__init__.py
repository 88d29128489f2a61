"""The use-cases, in the order of the story; one transaction each, and the only place where nouns meet.

    submit → (plan.ask) → settle → assess → decide → release → admit → begin → settle → … → the turn's end

Reading the modules in this order is reading the architecture:

1. `submit`   a request becomes a turn, `enqueue` makes a job without one
2. `plan`     the planner is asked; its answer is checked before it gains any authority
3. `assess`   a ready item is permitted, or a person is asked
4. `decide`   a person answers, or the time runs out
5. `admit`    who waits at a key gets its place
6. `begin`    the first guarded write of an attempt
7. `settle`   a holder ends its leases; `turns` says what that makes of the turn
8. `rescue`   what nobody renewed; `cancel` and `reopen` what a person asks for
9. `follow`   what comes after each commit, and `maintain`, which finds what a crash left undone
"""

from tenure.flow.admit import admit, declare_limits
from tenure.flow.assess import assess_turn
from tenure.flow.begin import Begun, begin
from tenure.flow.cancel import cancel_job, cancel_turn
from tenure.flow.decide import Decision, decide, revoke
from tenure.flow.during import put_artifact, report
from tenure.flow.enqueue import BareJob, enqueue, enqueue_on
from tenure.flow.follow import follow, maintain
from tenure.flow.outcomes import Completed, Expired, Failed, Outcome, Planned, Released
from tenure.flow.plan import ask
from tenure.flow.program import PLAN, Program
from tenure.flow.reopen import reopen
from tenure.flow.rescue import give_back, rescue, take_sweep
from tenure.flow.settle import Settled, Settlement, settle
from tenure.flow.submit import Request, submit

__all__ = [
    "PLAN",
    "BareJob",
    "Begun",
    "Completed",
    "Decision",
    "Expired",
    "Failed",
    "Outcome",
    "Planned",
    "Program",
    "Released",
    "Request",
    "Settled",
    "Settlement",
    "admit",
    "ask",
    "assess_turn",
    "begin",
    "cancel_job",
    "cancel_turn",
    "decide",
    "declare_limits",
    "enqueue",
    "enqueue_on",
    "follow",
    "give_back",
    "maintain",
    "put_artifact",
    "reopen",
    "report",
    "rescue",
    "revoke",
    "settle",
    "submit",
    "take_sweep",
]
