"""The test of the tests: `python tests/mutants.py [WORD]` breaks one rule at a time, and a named test must notice.

Each mutant is an exact text of a file in `src/tenure` and what stands there instead, in a copy of `src`. It passes only
if the named tests fail by an assertion of their own on every database that the mutant is about. A text that is not
found exactly once fails: the table follows the code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from tests import postgres

ROOT = Path(__file__).parent.parent
PARALLEL = 2
SECONDS = 120
BOTH = ("sqlite", "postgresql")
SQLITE, POSTGRESQL = BOTH[:1], BOTH[1:]
ASSERTIONS = ("AssertionError", "assert ", "Failed: ")


@dataclass(frozen=True)
class Mutant:
    """`tests` below `tests/`; `{}` stands for the database. `own`: how a failure begins that is the test's own."""

    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]
    databases: tuple[str, ...] = BOTH
    own: tuple[str, ...] = ASSERTIONS


def mutant(
    name: str,
    file: str,
    text: str,
    instead: str,
    *tests: str,
    more: tuple[tuple[str, str], ...] = (),
    databases: tuple[str, ...] = BOTH,
    own: tuple[str, ...] = ASSERTIONS,
) -> Mutant:
    return Mutant(name, file, ((text, instead), *more), tests, databases, own)


PREDICATE = "store/test_predicate.py::test_nobody_else_moves_it[{}-%s]"
LOCKS = '.with_for_update(key_share=True, skip_locked=True, of=background_jobs)\n    .cte("renewable")'

MUTANTS = [
    # the holder's predicate
    mutant(
        "token out of the predicate",
        "store/holding.py",
        "        jobs.fencing_token == pairs.c.token,\n",
        "",
        PREDICATE % "lower token-renew",
        PREDICATE % "higher token-guard",
    ),
    mutant(
        "expiry out of the predicate",
        "store/holding.py",
        "        jobs.lease_expires_at > now(),\n",
        "",
        PREDICATE % "expired lease-renew",
        PREDICATE % "expired lease-complete_bare",
    ),
    mutant(
        "owner out of the predicate",
        "store/holding.py",
        '        jobs.lease_owner == sa.bindparam("owner"),\n',
        "",
        PREDICATE % "other owner-report",
    ),
    mutant(
        "tenant out of the predicate",
        "store/holding.py",
        "        jobs.tenant_id == pairs.c.tenant_id,\n        jobs.job_id == pairs.c.job_id,\n        _is_running,",
        "        jobs.job_id == pairs.c.job_id,\n        _is_running,",
        PREDICATE % "other tenant-begin",
    ),
    mutant(
        "job out of the predicate",
        "store/holding.py",
        "        jobs.job_id == pairs.c.job_id,\n        _is_running,",
        "        _is_running,",
        PREDICATE % "other job-extend",
    ),
    mutant(
        "status and expiry out of the predicate",
        "store/holding.py",
        "        _is_running,\n",
        "",
        PREDICATE % "queued again-guard",
        PREDICATE % "failed-begin",
        more=(("        jobs.lease_expires_at > now(),\n", ""),),
    ),
    mutant(
        "a completion does not see a cancel request",
        "store/endings.py",
        ', jobs.cancel_requested_at.is_(None))\n    .values(\n        status="completed"',
        ')\n    .values(\n        status="completed"',
        "store/test_predicate.py::test_what_is_not_bare_or_is_to_be_cancelled_is_not_completed_in_one_statement"
        "[{}-cancel requested]",
    ),
    mutant(
        "a renewal reaches beyond max_runtime",
        "store/holding.py",
        ".values(lease_expires_at=earlier(now_plus(jobs.lease_s), after(jobs.first_claimed_at, jobs.max_runtime_s)))",
        ".values(lease_expires_at=now_plus(jobs.lease_s))",
        "store/test_holding.py::test_no_renewal_reaches_beyond_max_runtime[{}-renew--70.0-30.0]",
    ),
    mutant(
        "a renewal waits for a locked row",
        "store/holding.py",
        LOCKS,
        LOCKS.replace("skip_locked=True, ", ""),
        "races/test_jobs.py::test_a_renewal_waits_for_nobody",
        databases=POSTGRESQL,
    ),
    # endings
    mutant(
        "an ending does not test the status",
        "store/endings.py",
        '        jobs.status == "running",\n    )\n    .values(\n        status=_endings.c.status,',
        "    )\n    .values(\n        status=_endings.c.status,",
        "store/test_endings.py::test_an_ending_of_what_does_not_run_moves_nothing[{}-failed]",
    ),
    mutant(
        "an ending does not test the token",
        "store/endings.py",
        "        jobs.fencing_token == _endings.c.token,\n",
        "",
        "store/test_endings.py::test_an_ending_under_another_token_moves_nothing[{}-1]",
    ),
    mutant(
        "rescue ignores the expiry",
        "store/endings.py",
        ", jobs.lease_expires_at <= now())\n_expired",
        ")\n_expired",
        "store/test_endings.py::test_only_expired_running_jobs_are_found[{}-a live lease]",
    ),
    mutant(
        "rescue reads every job there ever was",
        "store/endings.py",
        "    .order_by(jobs.lease_owner, jobs.tenant_id, jobs.job_id)\n    .limit(",
        "    .order_by(jobs.tenant_id, jobs.job_id)\n    .limit(",
        "store/test_plans.py::test_sqlite_searches_by_the_right_index[False]",
        databases=SQLITE,
    ),
    mutant(
        "every worker sweeps at any time",
        "store/endings.py",
        '    .where(tenure_meta.c.swept_at <= now_plus(sa.bindparam("ago", type_=sa.Float(53))))\n',
        '    .where(sa.bindparam("ago", type_=sa.Float(53)) < 0)\n',
        "store/test_endings.py::test_one_sweep_a_second_in_the_whole_database[{}]",
    ),
    mutant(
        "who was away takes back what others run",
        "store/endings.py",
        '    .where(jobs.status == "running", jobs.lease_owner == sa.bindparam("owner"))\n    .order_by',
        '    .where(jobs.status == "running")\n    .order_by',
        "store/test_endings.py::test_one_s_own_are_taken_expired_or_not[{}-60.0]",
    ),
    mutant(
        "a retry gives its slot back",
        "store/endings.py",
        "slot_held_at=sa.case((_queued_again, jobs.slot_held_at), else_=sa.null())",
        "slot_held_at=None",
        "store/test_keys.py::test_a_retry_keeps_its_slot_and_gives_its_limit_back[{}]",
    ),
    mutant(
        "the journal overwrites",
        "store/journal.py",
        "_insert = insert_if_absent(job_attempts)",
        "_insert = sa.insert(job_attempts)",
        "store/test_journal.py::test_what_is_there_stays[{}]",
        own=("sqlalchemy.exc.IntegrityError",),
    ),
    # claims
    mutant(
        "a claim ignores the due time",
        "store/claims.py",
        ", jobs.claim_at <= now())",
        ")",
        "store/test_claims.py::test_what_cannot_run_now_is_not_claimed[{}-due later]",
    ),
    mutant(
        "a claim ignores blocked_by",
        "store/claims.py",
        "jobs.blocked_by.is_(None), ",
        "",
        "store/test_claims.py::test_what_cannot_run_now_is_not_claimed[{}-blocked by a key]",
        own=("sqlalchemy.exc.IntegrityError",),  # the table refuses it too
    ),
    mutant(
        "a claim is in the order of ids",
        "store/claims.py",
        "        .order_by(jobs.claim_at, jobs.job_id)\n        .limit(limit)",
        "        .order_by(jobs.job_id)\n        .limit(limit)",
        "store/test_claims.py::test_one_at_a_time_keeps_the_order_too[{}]",
        "store/test_claims.py::test_a_priority_overtakes_what_became_due_that_much_earlier_and_no_more[{}]",
        more=(("order_by(merged.c.claim_at, merged.c.job_id)", "order_by(merged.c.job_id)"),),
    ),
    mutant(
        "a claim is not charged",
        "store/claims.py",
        '"attempt": jobs.attempt + 1,',
        '"attempt": jobs.attempt,',
        "store/test_claims.py::test_every_claim_is_charged[{}]",
    ),
    mutant(
        "a claim reaches beyond max_runtime",
        "store/claims.py",
        "earlier(now_plus(lease), after(first, jobs.max_runtime_s))",
        "now_plus(lease)",
        "store/test_claims.py::test_the_lease_ends_with_max_runtime[{}-70.0-30.0]",
    ),
    mutant(
        "a claim waits for another",
        "store/claims.py",
        "        .with_for_update(key_share=True, skip_locked=True)\n        .subquery()",
        "        .with_for_update(key_share=True)\n        .subquery()",
        "races/test_jobs.py::test_two_claims_share_the_jobs_and_nobody_waits[2]",
        databases=POSTGRESQL,
    ),
    mutant(
        "the token source is set back",
        "db/tokens.py",
        'last=fencing_token_counter.c.last + sa.bindparam("n", type_=sa.BigInteger())',
        'last=sa.bindparam("n", type_=sa.BigInteger())',
        "store/test_claims.py::test_tokens_grow_and_never_repeat[{}]",
        databases=SQLITE,
    ),
    mutant(
        "a batch shares one token",
        "store/claims.py",
        ".values(fencing_token=next_token(), **_granted(tools))",
        ".values(fencing_token=sa.func.coalesce(sa.select(next_token()).scalar_subquery(), 0), **_granted(tools))",
        "store/test_claims.py::test_tokens_grow_and_never_repeat[{}]",
        databases=POSTGRESQL,
    ),
    mutant(
        "priority is a delay",
        "store/jobs.py",
        "-PRIORITY_STEP_S * _new.c.priority",
        "PRIORITY_STEP_S * _new.c.priority",
        "store/test_claims.py::test_a_priority_overtakes_what_became_due_that_much_earlier_and_no_more[{}]",
    ),
    mutant(
        "a completed job can be reopened",
        "store/jobs.py",
        'jobs.status.in_(["failed", "cancelled"])',
        'jobs.status.in_(["failed", "cancelled", "completed"])',
        "store/test_jobs.py::test_each_verb_moves_from_its_statuses_alone[{}-reopen-completed]",
        own=(*ASSERTIONS, "sqlalchemy.exc.IntegrityError"),
    ),
    # the log
    mutant(
        "events are written at once",
        "store/events.py",
        "    tx.last_act = write_all\n",
        "    write_all(tx)\n",
        "store/test_events.py::test_events_are_the_last_act[{}]",
    ),
    mutant(
        "events are written after the commit",
        "db/engine.py",
        "            result = body(tx)\n            tx.finish()\n",
        "            result = body(tx)\n            self._commit(connection)\n            tx.finish()\n",
        "store/test_events.py::test_a_change_is_not_committed_without_its_event[{}]",
    ),
    mutant(
        "unwritten events are forgotten",
        "db/tx.py",
        "        if self.unwritten:\n",
        "        if False:\n",
        "store/test_events.py::test_unwritten_events_cannot_be_committed[{}]",
    ),
    mutant(
        "sessions are locked in the order of their events",
        "store/events.py",
        "        tx.execute(_lock, parameters)\n",
        '        [tx.execute(_lock, {"counted": pack([[*key, n]])}) for key, n in counts.items()]\n',
        "races/test_log.py::test_two_settlements_over_two_sessions_do_not_deadlock",
        databases=POSTGRESQL,
    ),
    mutant(
        "a page begins at the cursor",
        "store/events.py",
        'agent_events.c.event_seq > sa.bindparam("after"',
        'agent_events.c.event_seq >= sa.bindparam("after"',
        "store/test_events.py::test_a_page_is_strictly_after_the_cursor[{}]",
    ),
    mutant(
        "a cursor outside the log is followed",
        "store/events.py",
        " or not oldest - 1 <= after <= last:",
        ":",
        "store/test_events.py::test_a_cursor_outside_the_log_gets_a_reset[{}-2-True]",
    ),
    mutant(
        "payloads are stored as they come",
        "store/events.py",
        "encode_json(sanitize(event.payload))",
        "encode_json(event.payload)",
        "store/test_events.py::test_a_secret_never_reaches_the_table[{}]",
    ),
    mutant(
        "a cursor moves back",
        "store/cursors.py",
        "forward = sa.or_(_c.epoch != epoch, _c.event_seq < event_seq)",
        "forward = sa.true()",
        "store/test_cursors.py::test_a_cursor_moves_forward_only[{}]",
    ),
    # keys, decisions, locks
    mutant(
        "a person's hold is ignored",
        "store/keys.py",
        "    if key.held_by is not None:\n",
        "    if False:\n",
        "store/test_keys.py::test_a_held_key_has_no_room[{}]",
    ),
    mutant(
        "who waits at a key counts as its holder",
        "store/keys.py",
        "    jobs.blocked_by.is_(None), jobs.status.in_(",
        "    sa.true(), jobs.status.in_(",
        "store/test_keys.py::test_who_holds_what[{}-waiting, never admitted]",
    ),
    mutant(
        "a decision is taken after its time",
        "store/approvals.py",
        ".get(status, _live)",
        ".get(status, sa.true())",
        "store/test_approvals.py::test_a_decision_tests_the_expiry[{}-approved--0.05]",
    ),
    mutant(
        "a second decision wins",
        "store/approvals.py",
        ".where(_this, _pending, due)",
        ".where(_this, due)",
        "store/test_approvals.py::test_what_is_settled_stays[{}-denied-approved]",
    ),
    mutant(
        "a use is taken that is not there",
        "store/approvals.py",
        "        .where(sa.or_(_g.uses_left.is_(None), _g.uses_left >= uses))\n",
        "",
        "store/test_approvals.py::test_a_use_is_taken_once_and_given_back[{}]",
        own=(*ASSERTIONS, "sqlalchemy.exc.IntegrityError"),
    ),
    mutant(
        "a session is locked as if its key would change",
        "store/sessions.py",
        "    .with_for_update(key_share=True, of=session_contexts)\n",
        "    .with_for_update(of=session_contexts)\n",
        "races/test_log.py::test_submits_on_one_session_do_not_deadlock",
        databases=POSTGRESQL,
    ),
    # the floor
    mutant(
        "what may have been committed is run again",
        "db/engine.py",
        "                if not lookup or tried == TRIES:\n",
        "                if tried == TRIES:\n",
        "db/test_engine.py::test_a_cut_at_commit_is_not_run_again",
        databases=POSTGRESQL,
    ),
    mutant(
        "a conflict is not run again",
        "db/faults.py",
        'RETRY_STATES = frozenset({"40001", "40P01"})',
        "RETRY_STATES = frozenset[str]()",
        "db/test_engine.py::test_a_serialization_failure_is_run_again",
        databases=POSTGRESQL,
        own=("sqlalchemy.exc.OperationalError",),
    ),
    mutant(
        "the keeper waits its turn",
        "db/turnstile.py",
        "(self._urgent if urgent else self._waiting).append(turn)",
        "self._waiting.append(turn)",
        "races/test_storm.py::test_the_keeper_goes_first",
        databases=SQLITE,
    ),
    mutant(
        "a fork carries SQLite's connections",
        "db/engine.py",
        "            self._carried = pool.checkedout()\n",
        "            self._carried = 0\n",
        "db/test_fork.py::test_both_go_on[{}-with a kept connection]",
        databases=SQLITE,
    ),
    mutant(
        "a turn goes on before what it depends on",
        "store/plans.py",
        "        .correlate(agent_plan_items, needed)\n",
        "",
        "store/test_agent.py::test_turns_with_an_item_that_can_go_on[{}-on a running one]",
    ),
    mutant(
        "a hint is not sent",
        "db/wakeup.py",
        'tx.execute(sa.select(sa.func.pg_notify(self.channel, "")))',
        "pass",
        "db/test_wakeup.py::test_a_hint_from_another_connection_wakes",
        databases=POSTGRESQL,
    ),
    mutant(
        "the transaction's start is taken for now",
        "db/clock.py",
        'if shift else "statement_timestamp()"',
        'if shift else "now()"',
        "store/test_statements.py::test_the_sql_of_a_verb[{}-holding.renew]",
        databases=POSTGRESQL,
    ),
    mutant(
        "a running job may be without a lease's length",
        "db/migrations/0001_initial.postgresql.sql",
        "coalesce(lease_s, 0) > 0",
        "lease_s > 0",
        "store/test_checks.py::test_the_table_refuses[{}-background_jobs.leased_when_running-7]",
        databases=POSTGRESQL,
    ),
    mutant(
        "a newer schema is used",
        "db/migrate.py",
        "    if row.oldest_program > PROGRAM:\n",
        "    if False:\n",
        "migrations/test_migrations.py::test_a_schema_that_has_left_the_program_behind_is_refused[{}]",
    ),
]


def main(arguments: list[str]) -> int:
    chosen = [each for each in MUTANTS if all(word in f"{each.file} {each.name}" for word in arguments)]
    began = time.monotonic()
    server = postgres.Server()
    try:
        with ThreadPoolExecutor(PARALLEL) as pool:
            verdicts = list(pool.map(lambda each: _verdict(each, server.url), chosen))
    finally:
        server.close()
    width = max((len(each.name) for each in chosen), default=0)
    for each, verdict in zip(chosen, verdicts, strict=True):
        print(f"{'survived' if verdict else 'noticed ':8}  {each.name:{width}}  {each.file:24}  {verdict}")
    survived = sum(1 for verdict in verdicts if verdict)
    print(f"{len(chosen)} mutants, {survived} survived, {time.monotonic() - began:.0f} s")
    return 1 if survived or not chosen else 0


def _verdict(each: Mutant, url: str) -> str:
    """Nothing when the named tests noticed the mutant, else what is wrong."""
    with tempfile.TemporaryDirectory(prefix="tenure-mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        problem = _apply(each, source / "tenure" / each.file)
        return problem or _run(each, source, Path(folder) / "report.xml", url)


def _apply(each: Mutant, path: Path) -> str:
    text = path.read_text("utf-8")
    for old, new in each.edits:
        if text.count(old) != 1:
            return f"text found {text.count(old)} times, wanted once: {old.strip()!r}"
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    return ""


def _run(each: Mutant, source: Path, report: Path, url: str) -> str:
    nodes = [f"tests/{node.replace('{}', database)}" for node in each.tests for database in each.databases]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "TENURE_TEST_POSTGRES": url}
    try:
        done = subprocess.run(
            [*command, *dict.fromkeys(nodes)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"no verdict within {SECONDS} s"
    if not report.exists():
        return f"pytest did not run: {(done.stdout + done.stderr).strip()[-200:]}"
    cases = list(ET.parse(report).getroot().iter("testcase"))
    return _judge(each, cases)


def _judge(each: Mutant, cases: Iterable[ET.Element]) -> str:
    """Every named test must fail by itself; of one with several parameters, one on each database is enough."""
    failed, others = set(), []
    for case in cases:
        name = f"{case.get('classname', '').removeprefix('tests.')}::{case.get('name')}"
        failure = case.find("failure")
        message = "" if failure is None else failure.get("message", "")
        if message.startswith(each.own):
            failed.add(name)
        elif failure is not None or case.find("error") is not None:
            others.append(f"{name}: {message.splitlines()[0] if message else 'an error before or after the test'}")
    wanted = [node.replace("{}", database) for node in each.tests for database in each.databases]
    missing = [node for node in dict.fromkeys(wanted) if not any(_is(name, node) for name in failed)]
    if missing:
        return f"not noticed by {', '.join(missing)}" + (f"; but {others[0]}" if others else "")
    return ""


def _is(name: str, node: str) -> bool:
    path, _, test = node.partition("::")
    module = path.removesuffix(".py").replace("/", ".")
    return name == f"{module}::{test}" or name.startswith(f"{module}::{test}[")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
