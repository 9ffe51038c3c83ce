"""Faults in locks, commits and deadlines, each with the test that must notice it."""

from tests.mutation_edits import (
    Mutation,
    call_instead,
    drop_call,
    drop_condition,
    drop_element,
    drop_raise,
    replace,
    skip_branch,
    unwrap,
)

LEDGER = "prudent.ledger.ledger:Ledger"
TRUST = "tests/trust"
FAULTS = (
    # locks
    Mutation(
        "no lock on a campaign's head",
        "prudent.store.campaigns:_LOCK",
        unwrap("with_for_update"),
        f"{TRUST}/test_exactly_once.py::test_two_workers_teach_one_campaign",
    ),
    Mutation(
        "SQLite's lock taken late",
        "prudent.store.statements:begin_immediate",
        replace("'BEGIN IMMEDIATE'", "'BEGIN'"),
        "tests/store/test_schema.py::test_sqlite_is_durable_and_locks_before_it_reads",
    ),
    Mutation(
        "two servers on one SQLite file",
        "prudent.preflight:_lock_inode",
        drop_call("fcntl.fcntl"),
        f"{TRUST}/test_files.py::test_two_servers_never_share_a_file",
    ),
    Mutation(
        "migrations without a lock",
        "prudent.store.schema:migrate",
        replace("'SELECT pg_advisory_xact_lock(:lock)'", "'SELECT :lock'"),
        f"{TRUST}/test_upgrades.py::test_starters_at_once_migrate_once[postgres-empty]",
    ),
    Mutation(
        "inserts in no order",
        "prudent.store.decisions:insert_decisions",
        call_instead("sorted", "list"),
        f"{TRUST}/test_exactly_once.py::test_two_workers_that_insert_the_same_ids_do_not_deadlock",
    ),
    Mutation(
        "one locked command refuses the whole batch",
        f"{LEDGER}._give_up",
        skip_branch("len(commands) > 1"),
        f"{TRUST}/test_faults.py::test_waiting_for_anothers_id_concerns_that_command_alone",
    ),
    Mutation(
        "a reward given to one of several campaigns",
        "prudent.ledger.batch:Batch._found",
        skip_branch("len(made) > 1"),
        "tests/ledger/test_same_ids.py::test_what_is_remembered_hides_no_other_campaign",
    ),
    Mutation(
        "an id remembered that another campaign uses, too",
        "prudent.ledger.batch:Batch.shared_ids",
        replace("count > 1", "count > 2"),
        "tests/ledger/test_same_ids.py::test_what_is_remembered_hides_no_other_campaign",
    ),
    Mutation(
        "a campaign's key in an id believed without a look",
        "prudent.ledger.basis:Basis._find_decisions",
        drop_call("anywhere.update"),
        "tests/ledger/test_same_ids.py::test_an_id_that_looks_like_one_of_ours_is_found_all_the_same",
    ),
    # commits
    Mutation(
        "no UNIQUE on rewards",
        "migrations.versions.20261130_campaign_first:_replace_unique_index",
        replace("True", "False"),
        f"{TRUST}/test_exactly_once.py::test_the_database_itself_refuses_a_second_row",
    ),
    Mutation(
        "a reply that does not wait for its commit",
        f"{LEDGER}._attempt",
        call_instead("transaction.commit", "threading.Timer(0.05, transaction.commit).start"),
        f"{TRUST}/test_commits.py::test_a_success_is_committed",
    ),
    Mutation(
        "a failing commit acknowledged",
        f"{LEDGER}._attempt",
        drop_raise("UnknownOutcomeError"),
        f"{TRUST}/test_commits.py::test_a_success_is_committed",
    ),
    Mutation(
        "SQLite commits without a sync",
        "prudent.store.engines:_create_sqlite",
        replace("'synchronous = FULL'", "'synchronous = OFF'"),
        "tests/store/test_schema.py::test_sqlite_is_durable_and_locks_before_it_reads",
    ),
    Mutation(
        "fsync=off accepted",
        "prudent.preflight:_check_durability",
        drop_element("'fsync'"),
        f"{TRUST}/test_starting.py::test_a_database_that_does_not_sync_is_refused",
    ),
    Mutation(
        "a lost connection returned as a good one",
        "prudent.store.statements:_raise",
        skip_branch("lost"),
        "tests/store/test_statements.py::test_a_lost_connection_is_replaced",
    ),
    Mutation(
        "an import published without its rows being counted",
        "prudent.ledger.importing:_finish",
        drop_raise("ConflictError"),
        "tests/ledger/test_importing.py::test_an_import_that_a_restore_has_cut_is_not_published",
    ),
    # deadlines
    Mutation(
        "the sweep decides, not the deadline",
        "prudent.ledger.rewards:reward",
        skip_branch("expire(state, decision, now, writes)"),
        f"{TRUST}/test_deadlines.py::test_the_deadline_decides_and_not_the_sweep",
    ),
    Mutation(
        "the default reward learned again by each sweep",
        "prudent.ledger.batch:Batch._expire",
        drop_condition("self._recorded_reward(identity) is None"),
        "tests/ledger/test_ledger.py::test_a_deadline_teaches_the_default_once",
    ),
    Mutation(
        "deadlines on the wall clock",
        "prudent.clock:steady_clock",
        replace("ahead + elapsed()", "wall()"),
        f"{TRUST}/test_deadlines.py::test_setting_the_wall_clock_moves_no_deadline",
    ),
    Mutation(
        "deadlines of a campaign that is being imported are swept",
        "prudent.store.decisions:_DUE",
        drop_element("campaigns.c.campaign_id.is_not(None)"),
        "tests/ledger/test_importing.py::test_a_deadline_that_passes_during_an_import_is_kept",
    ),
    Mutation(
        "no deadline for an answer",
        f"{LEDGER}.enqueue",
        replace("self._limits.answer_seconds_max", "3_600"),
        f"{TRUST}/test_faults.py::test_a_postgres_that_stalls",
    ),
)
