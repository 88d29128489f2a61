"""The test of the flow's tests: `python tests/mutants_flow.py [WORD]`, with the runner and the verdict of `mutants`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from tests import mutants
from tests.mutants import mutant

OWN = (*mutants.ASSERTIONS, "tenure.errors.", "Failed")

FLOW = [
    mutant(
        "a key with another body is a replay",
        "flow/submit.py",
        "    if found.request_digest != new.request_digest:\n",
        "    if False:\n",
        "flow/test_submit.py::test_a_key_with_another_body_is_a_conflict_that_does_not_show_the_first[{}-project_id]",
    ),
    mutant(
        "the end of a turn does not start the next",
        "flow/turns.py",
        "        start_next(tx, program, turn.session)\n",
        "",
        "flow/test_submit.py::test_queued_turns_start_in_order_when_the_one_before_ends[{}]",
    ),
    mutant(
        "the end of a turn leaves its questions open",
        "flow/turns.py",
        "    void_approvals(tx, turn)\n    for item",
        "    for item",
        "flow/test_plan.py::test_a_step_that_fails_for_good_fails_the_turn_and_cancels_what_has_not_started[{}]",
    ),
    mutant(
        "a turn waits for a person while something of it moves",
        "flow/turns.py",
        "if waits and not moves else",
        "if waits else",
        "flow/test_approvals.py::test_a_turn_waits_for_a_person_only_when_nothing_of_it_moves[{}]",
    ),
    mutant(
        "the digest is not tested at the beginning",
        "flow/begin.py",
        "same_place and digest == job.digest and fits(grant, digest, job.input)",
        "same_place",
        "flow/test_approvals.py::test_a_job_whose_input_was_changed_is_refused_at_its_beginning[{}-{'n': 6}]",
    ),
    mutant(
        "a revoked grant is good at the beginning",
        "flow/begin.py",
        "    return usable and same_place",
        "    return same_place",
        "flow/test_approvals.py::test_a_grant_that_fell_between_release_and_beginning_is_asked_for_again[{}-revoked]",
        "flow/test_approvals.py::test_a_grant_is_tested_on_every_attempt[{}]",
    ),
    mutant(
        "a grant fits any arguments at release",
        "flow/assess.py",
        "        return grant.digest == digest\n",
        "        return True\n",
        "flow/test_approvals.py::test_a_plan_changed_after_the_answer_is_asked_about_anew[{}-number]",
    ),
    mutant(
        "a use is not taken at release",
        "flow/assess.py",
        "        approvals.spend(tx, RowKey(grant.tenant_id, grant.grant_id))\n",
        "        pass\n",
        "flow/test_approvals.py::test_an_approved_step_runs_once_with_the_arguments_that_were_shown[{}]",
    ),
    mutant(
        "a use is not given back by an unbegun job",
        "flow/settle.py",
        "        approvals.spend(tx, RowKey(job.tenant_id, job.grant_id), -1)\n",
        "        pass\n",
        "flow/test_approvals.py::test_a_job_that_ends_unbegun_gives_its_use_back[{}]",
    ),
    mutant(
        "a job of an ended turn that begins restates it",
        "flow/begin.py",
        "        if not is_terminal(turn.status):\n            restate",
        "        if True:\n            restate",
        "flow/test_cancel.py::test_a_job_claimed_before_its_turn_was_cancelled_and_begun_after_it_ends_cancelled[{}]",
        own=(*OWN, "sqlalchemy.exc.IntegrityError"),
    ),
    mutant(
        "a cancel request is forgotten at the settlement",
        "flow/outcomes.py",
        "    if job.cancel_requested_at is not None:\n",
        "    if False:\n",
        "flow/test_cancel.py::test_a_running_job_that_is_cancelled_ends_cancelled_whatever_it_does[{}-step-returns]",
        "flow/test_cancel.py::test_a_running_job_that_is_cancelled_ends_cancelled_whatever_it_does[{}-bare-is killed]",
    ),
    mutant(
        "a late result is taken for one's own",
        "flow/settle.py",
        "        if _is_own(",
        "        if True or _is_own(",
        "flow/test_settle.py::test_a_late_result_is_rejected_recorded_once_and_changes_nothing[{}-bare]",
    ),
    mutant(
        "a rejection is recorded each time",
        "flow/settle.py",
        '    if "result_rejected" in written:\n        return\n',
        "",
        "flow/test_settle.py::test_a_late_result_is_rejected_recorded_once_and_changes_nothing[{}-of a turn]",
    ),
    mutant(
        "any journal entry is taken for one's own result",
        "flow/settle.py",
        '== (token, "cancelled", digest)',
        "== (e.fencing_token, e.outcome, e.result_sha256)",
        "flow/test_settle.py::test_what_others_wrote_into_the_journal_is_not_taken_for_ones_own_result[{}-bare-away]",
    ),
    mutant(
        "rescue stops at a bad row",
        "flow/rescue.py",
        "            settled.add(_quarantined(program, key))\n",
        "            raise\n",
        "flow/test_settle.py::test_a_row_that_cannot_be_judged_is_quarantined_and_stops_no_other[{}-bare]",
        own=(*OWN, "ZeroDivisionError"),
    ),
    mutant(
        "admission forgets who took a place before",
        "flow/admit.py",
        "                room[need] -= 1\n",
        "                pass\n",
        "flow/test_keys.py::test_a_limit_admits_so_many_and_then_the_oldest[{}]",
    ),
    mutant(
        "a person's hold admits",
        "store/keys.py",
        "    if key.held_by is not None:\n        return 0\n",
        "",
        "flow/test_keys.py::test_a_persons_hold_survives_every_end[{}-killed]",
    ),
    mutant(
        "a retry keeps its limit",
        "flow/outcomes.py",
        "        blocked_by=min(filter(None, (job.limit_key, job.user_limit_key)), default=None),\n",
        "",
        "flow/test_keys.py::test_a_retry_gives_its_limit_back_and_waits_again[{}]",
    ),
    mutant(
        "maintenance forgets what is ready",
        "flow/follow.py",
        "turns=ended | pending",
        "turns=ended",
        "flow/test_approvals.py::test_an_answer_given_while_everything_was_down_is_found_by_maintenance[{}]",
    ),
    mutant(
        "optional steps leave their dependants behind",
        "flow/turns.py",
        "        if later.status == ItemStatus.PENDING and gone & set(later.depends_on):\n",
        "        if False:\n",
        "flow/test_plan.py::test_optional_steps_take_their_dependants_along_and_the_turn_goes_on[{}]",
    ),
    mutant(
        "what ended with the turn stays closed",
        "flow/reopen.py",
        "item.item_id == job.item_id or item.status == ItemStatus.CANCELLED\n",
        "item.item_id == job.item_id\n",
        "flow/test_cancel.py::test_steps_whose_jobs_ended_with_the_turn_are_opened_too[{}]",
    ),
]


if __name__ == "__main__":
    mutants.MUTANTS[:] = FLOW
    sys.exit(mutants.main(sys.argv[1:]))
