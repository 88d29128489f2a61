"""Mutants of the worker, its keeper and the context of tools; runs as `mutants.py` does."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from tests import mutants
from tests.mutants import POSTGRESQL, mutant

KEEPER = "worker/test_keeper.py::"
ENDINGS = "worker/test_endings.py::"
STAGES = "worker/test_stages.py::"
EFFECTS = "worker/test_effects.py::"
WORKER = "worker/test_worker.py::"

MUTANTS = [
    # keeping (rules 14-16, 20)
    mutant(
        "the deadline counts from the answer",
        "worker/keeper.py",
        "self._confirm(by_pair, renewed, sent_at)",
        "self._confirm(by_pair, renewed, boottime())",
        KEEPER + "test_the_deadline_counts_from_the_sending[{}]",
    ),
    mutant(
        "a locked row is lost",
        "worker/keeper.py",
        "            if pair in still:\n",
        "            if False:\n",
        KEEPER + "test_a_locked_row_stops_no_other",
        databases=POSTGRESQL,
    ),
    mutant(
        "a lost lease is owned again",
        "context/hold.py",
        '            if self.state() == "lost":\n                return\n',
        "",
        KEEPER + "test_the_local_deadline_alone_is_a_loss_for_good[{}]",
    ),
    mutant(
        "a timed-out attempt is renewed",
        "worker/keeper.py",
        'frozenset({"lost", "away", "timeout"})',
        'frozenset({"lost", "away"})',
        KEEPER + "test_after_a_timeout_renewal_stops_and_the_keeper_sleeps[{}]",
    ),
    mutant(
        "the keeper spins over what it does not renew",
        "worker/keeper.py",
        "due = (hold.next_due for hold in self.holds() if hold.stop not in UNRENEWED)",
        "due = (hold.next_due for hold in self.holds())",
        KEEPER + "test_after_a_timeout_renewal_stops_and_the_keeper_sleeps[{}]",
    ),
    mutant(
        "a gap between ticks is not noticed",
        "worker/keeper.py",
        "            if gap > hold.lease_class.lease:\n",
        "            if False:\n",
        KEEPER + "test_a_process_that_was_away_marks_everything[{}]",
    ),
    mutant(
        "a try is not bounded",
        "worker/keeper.py",
        "renewed = self._kept.single(body, urgent=True, within_s=within_s)",
        "renewed = self._kept.single(body, urgent=True)",
        KEEPER + "test_a_try_over_a_silent_link_is_bounded_by_the_margin",
        databases=POSTGRESQL,
    ),
    mutant(
        "a renewal brings no cancel request",
        "worker/keeper.py",
        "            if renewal.cancel_requested and not asked_before:\n",
        "            if False:\n",
        KEEPER + "test_a_cancel_request_comes_with_a_renewal[{}]",
    ),
    mutant(
        "an unknown ownership is not waited for",
        "context/hold.py",
        'while (state := self.state()) == "unknown":',
        'while (state := self.state()) == "never":',
        KEEPER + "test_require_ownership_waits_for_the_next_renewal[{}]",
    ),
    mutant(
        "an attempt that is over still owns",
        "context/hold.py",
        'frozenset({"timeout", "lost", "away", "shutdown"})',
        'frozenset({"lost", "away"})',
        KEEPER + "test_an_attempt_that_is_over_owns_nothing[{}-timeout]",
        KEEPER + "test_an_attempt_that_is_over_owns_nothing[{}-shutdown]",
    ),
    mutant(
        "lease classes are not checked at start",
        "worker/worker.py",
        '        lease_class.check(f"tool {name!r}")\n',
        "",
        KEEPER + "test_a_lease_class_that_cannot_work_stops_the_start",
    ),
    mutant(
        "maintenance judges right after being away",
        "worker/background.py",
        "        if self._here_at is not None and now - self._here_at > self._gone_s:\n",
        "        if False:\n",
        WORKER + "test_after_being_away_maintenance_waits_one_heartbeat[{}]",
    ),
    # endings (rules 19, 28)
    mutant(
        "a result after the timeout counts",
        "worker/executor.py",
        'return of_stop(hold, "timeout") if hold.stop == "timeout" else None',
        "return None",
        ENDINGS + "test_timeout_bounds_an_attempt_in_a_thread[{}]",
    ),
    mutant(
        "an old input is any failure",
        "worker/executor.py",
        "raise _InputInvalid(str(error)) from None",
        "raise",
        ENDINGS + "test_an_old_row_that_no_longer_fits_is_input_invalid[{}]",
    ),
    mutant(
        "the children of a process outlive it",
        "worker/process.py",
        "                os.killpg(self.process.pid, signal.SIGKILL)\n",
        "                pass\n",
        ENDINGS + "test_a_process_that_died_leaves_no_child_behind[{}]",
    ),
    # the worker (rules 9, 11, 20, 21)
    mutant(
        "what still runs here is started again",
        "worker/worker.py",
        "if lease.remaining_s > 0 and lease not in twins",
        "if lease.remaining_s > 0",
        WORKER + "test_a_job_that_still_runs_here_is_not_started_twice[{}]",
    ),
    mutant(
        "ghost claims are not looked for",
        "worker/worker.py",
        "        if not self._suspect_ghosts and now - self._ghosts_seen_at < term:\n",
        "        if True:\n",
        WORKER + "test_claims_whose_answer_was_lost_are_given_back",
        databases=POSTGRESQL,
        own=("tenure.errors.WaitTimeout", *mutants.ASSERTIONS),
    ),
    mutant(
        "a refund is forgotten with the database",
        "worker/worker.py",
        "        pairs = list(self._away)\n",
        "        pairs, self._away = self._away, []\n",
        WORKER + "test_what_was_away_keeps_its_refund_while_the_database_is_away[{}]",
    ),
    mutant(
        "a draining worker claims",
        "worker/worker.py",
        "        if self._draining:\n            return False\n",
        "",
        WORKER + "test_a_graceful_stop_settles_what_runs_and_claims_no_more[{}]",
        more=(('            if self.status != "running":\n                return False\n', ""),),
    ),
    mutant(
        "the heartbeat ends before the drain",
        "worker/worker.py",
        "        self._draining = True\n",
        "        self._draining = True\n        self._keeper.stop()\n",
        WORKER + "test_a_graceful_stop_settles_what_runs_and_claims_no_more[{}]",
        own=("tenure.errors.WaitTimeout", *mutants.ASSERTIONS),
    ),
    mutant(
        "at the end of the grace nothing is given back",
        "worker/worker.py",
        "        self._give_back_running()\n        self._ended = True\n",
        "        self._ended = True\n",
        WORKER + "test_when_the_grace_is_over_the_rest_is_given_back[{}]",
    ),
    # stages and effects (rules 26, 27)
    mutant(
        "a stage of other arguments is taken",
        "context/tool.py",
        "if found is not None and found.digest == digest_of(place, args):",
        "if found is not None:",
        STAGES + "test_other_arguments_are_computed_anew[{}]",
    ),
    mutant(
        "a tool gets what it computed, not what was stored",
        "context/tool.py",
        "return _any.validate_json(encoded)",
        "return value",
        STAGES + "test_a_stage_is_computed_once_and_its_decoded_value_is_given[{}-thread]",
        STAGES + "test_a_stage_is_computed_once_and_its_decoded_value_is_given[{}-async]",
    ),
    mutant(
        "a name is entered twice",
        "context/tool.py",
        "            if place in self._entered:\n",
        "            if False:\n",
        EFFECTS + "test_a_name_is_entered_once_an_attempt[{}]",
    ),
    mutant(
        "a stale owner leaves its file",
        "flow/during.py",
        "        program.runtime.files.remove(stored.location)\n",
        "",
        STAGES + "test_who_may_not_write_writes_nothing[{}-lost]",
    ),
    mutant(
        "a finished effect is sent again",
        "flow/effects.py",
        '    if found is not None and found.state == "done":\n        return found, None\n',
        "",
        EFFECTS + "test_a_2xx_is_done_and_stored",
    ),
    mutant(
        "never is forgotten",
        "flow/effects.py",
        '        if request.repeat == "never":\n',
        "        if False:\n",
        EFFECTS + "test_after_a_crash_never_ends_the_job[{}]",
    ),
    mutant(
        "another request takes the place of the first",
        "flow/effects.py",
        "    if found is not None and found.digest != request.digest:\n",
        "    if False:\n",
        EFFECTS + "test_another_request_under_the_same_name_is_refused[{}]",
    ),
    mutant(
        "each attempt has a key of its own",
        "context/tool.py",
        'key=key or f"tenure:{self.lease.job_id}:{place}"',
        'key=key or f"tenure:{self.lease.job_id}:{self.lease.fencing_token}:{place}"',
        EFFECTS + "test_after_a_crash_safe_sends_again_under_the_same_key[{}]",
    ),
    mutant(
        "what was reconciled cannot be recorded",
        "flow/effects.py",
        '        if request.repeat == "reconcile":\n            stages',
        "        if False:\n            stages",
        EFFECTS + "test_after_a_crash_a_reconcile_function_looks[{}-done]",
        own=("tenure.errors.OwnershipLost",),
    ),
]


if __name__ == "__main__":
    mutants.MUTANTS[:] = MUTANTS
    sys.exit(mutants.main(sys.argv[1:]))
