"""Faults in what is made of PostgreSQL's answers, and in what keeps memory from being ahead of the database."""

from tests.mutation_edits import Mutation, drop_call, drop_raise, replace, skip_branch

LEDGER = "prudent.ledger.ledger:Ledger"
TRUST = "tests/trust"
COMPACTION, CHORES = "tests/ledger/test_compaction.py", "tests/ledger/test_chores.py"
DATABASE = (
    # the database's answers
    Mutation(
        "a read-only server classed as a defect",
        "prudent.store.failures:_MEANINGS",
        replace("Failure.UNAVAILABLE", "Failure.DEFECT"),
        f"{TRUST}/test_read_only.py::test_a_server_that_is_read_only_for_a_while",
    ),
    Mutation(
        "a class of errors that nobody has looked at",
        "prudent.store.failures:fault_of",
        replace("CANNOT", "OURS"),
        "tests/store/test_failures.py::test_a_code_of_a_later_version_is_the_servers",
    ),
    Mutation(
        "a session that cannot write kept",
        "prudent.store.failures:ends_session",
        replace("fault_of(state) is CANNOT", "False"),
        f"{TRUST}/test_read_only.py::test_a_session_that_cannot_write_is_left",
    ),
    Mutation(
        "a start on a server that is read-only",
        "prudent.store.engines:create_write_engine",
        replace("'read-write'", "'any'"),
        f"{TRUST}/test_read_only.py::test_a_read_only_server_is_refused_at_the_start",
    ),
    Mutation(
        "a commit that no standby has acknowledged",
        "prudent.store.postgres:LimitedConnection.commit",
        skip_branch("self._warning is not None"),
        f"{TRUST}/test_failovers.py::test_a_commit_that_no_standby_has_is_not_acknowledged",
    ),
    Mutation(
        "a pooler taken for a server",
        "prudent.store.postgres:LimitedConnection.set_limits",
        skip_branch("self._is_pooled()"),
        f"{TRUST}/test_poolers.py::test_two_workers_through_a_pooler[transaction]",
    ),
    Mutation(
        "locked tables taken for a busy campaign",
        "prudent.ledger.health:Health.find_obstacle",
        replace("self._attempt(check_writable)", "None"),
        f"{TRUST}/test_locks.py::test_a_table_that_somebody_has_locked[decisions]",
    ),
    Mutation(
        "an encoding that cannot hold every text",
        "prudent.store.engines:check_encoding",
        drop_raise("UnsupportedDatabaseError"),
        f"{TRUST}/test_surroundings.py::test_a_database_that_cannot_hold_every_text_is_refused",
    ),
    Mutation(
        "a migration ended for its pause",
        "prudent.store.schema:migrate",
        replace("'SET LOCAL idle_in_transaction_session_timeout = 0'", "'SELECT 1'"),
        f"{TRUST}/test_surroundings.py::test_a_migration_that_pauses",
    ),
    # memory and the database
    Mutation(
        "memory kept when the database is another one",
        "prudent.ledger.basis:Basis._read_standings",
        drop_raise("AnotherDatabaseError"),
        f"{TRUST}/test_restores.py::test_a_decision_that_was_taken_back_is_not_rewarded",
    ),
    Mutation(
        "a state that grows from another log",
        "prudent.ledger.loading:learn",
        drop_raise("AnotherDatabaseError"),
        f"{TRUST}/test_restores.py::test_another_tail_of_the_log_is_noticed",
    ),
    Mutation(
        "a snapshot of another log used",
        "prudent.ledger.loading:use_snapshot",
        skip_branch("snapshot.configuration_digest != state.fold_digest(last)"),
        f"{TRUST}/test_restores.py::test_a_snapshot_of_another_log_is_not_used",
    ),
    Mutation(
        "a snapshot of a state that is ahead of its log",
        "prudent.store.log:write_snapshot",
        skip_branch("head is None or snapshot.sequence > head"),
        f"{TRUST}/test_restores.py::test_a_state_ahead_of_the_log_leaves_no_snapshot",
    ),
    Mutation(
        "rewards without decisions overlooked",
        "prudent.store.log:find_faults",
        skip_branch("orphans > pruned"),
        f"{TRUST}/test_restores.py::test_verify_finds_rewards_without_decisions",
    ),
    Mutation(
        "rewards of deleted decisions not counted",
        "prudent.store.retention:prune",
        drop_call("add_pruned"),
        "tests/ledger/test_retention.py::test_old_decisions_go_and_what_was_learned_stays",
    ),
    Mutation(
        "a decision deleted before its default reward is learned",
        "prudent.store.retention:find_old",
        replace("decisions.c.due_at.is_(None)", "decisions.c.key == key"),
        "tests/ledger/test_retention.py::test_a_decision_is_too_old_before_it_is_deleted",
    ),
    Mutation(
        "a snapshot that knows nothing of what came while it was computed",
        "prudent.ledger.compaction:Compaction._compact",
        skip_branch("log.read_amendments(connection, key, now.head) != amendments"),
        f"{COMPACTION}::test_an_amendment_on_the_way_is_not_lost",
    ),
    Mutation(
        "damaged rows replaced by what can be learned of them",
        "prudent.ledger.compaction:_fold",
        skip_branch("log.find_changed([row], None if last is None else last.digest)"),
        f"{COMPACTION}::test_what_only_the_log_says_stays",
    ),
    Mutation(
        "a shorter log taken for another database's",
        "prudent.ledger.loading:learn",
        replace("log.is_erased(first) or log.is_beginning(first)", "log.is_erased(first)"),
        f"{COMPACTION}::test_a_worker_that_lags_behind_goes_on",
    ),
    Mutation(
        "a log compacted that somebody has just decided to keep",
        "prudent.ledger.compaction:Compaction._compact",
        skip_branch("retention.find_compacting(connection, key - 1, 1) != [(key, days)]"),
        f"{CHORES}::test_who_decides_to_keep_more_keeps_it",
    ),
    Mutation(
        "rewards that go before their decisions",
        "prudent.ledger.compaction:Compaction._compact",
        skip_branch("retention.find_old(connection, key, before, 1)"),
        f"{CHORES}::test_a_decision_goes_before_its_reward",
    ),
    Mutation(
        "a scrubber that takes a snapshot for damage",
        "prudent.ledger.maintenance:Scrubber.step",
        replace("None if rows and log.is_beginning(rows[0]) else self._before", "self._before"),
        f"{CHORES}::test_rows_that_go_while_the_scrubber_is_among_them_are_no_damage",
    ),
    Mutation(
        "a snapshot of what was erased",
        "prudent.ledger.maintenance:Maintenance._dump",
        skip_branch("standing is None or standing.revision != state.revision"),
        "tests/ledger/test_erasing.py::test_a_snapshot_of_before_is_not_written_afterwards",
    ),
    Mutation(
        "pages of several instants",
        "prudent.store.engines:_create_postgres",
        replace("'REPEATABLE READ' if read_only else 'READ COMMITTED'", "'READ COMMITTED'"),
        "tests/ledger/test_one_instant.py::test_a_typing_error_does_not_come_back",
    ),
    Mutation(
        "a restart from rows that are gone",
        "prudent.ledger.administration:_restart",
        skip_branch("beginning is not None and command.first <= beginning.sequence"),
        f"{COMPACTION}::test_what_has_gone_cannot_be_asked_for",
    ),
    Mutation(
        "a decision that is not too old until it is deleted",
        "prudent.ledger.state:CampaignState.keeps",
        replace("decision.created_at >= now - days * DAY_US", "True"),
        "tests/ledger/test_retention.py::test_a_decision_is_too_old_before_it_is_deleted",
    ),
    Mutation(
        "states kept when memory is exhausted",
        f"{LEDGER}._make_room",
        drop_call("self._states.clear"),
        "tests/ledger/test_ledger.py::test_exhausted_memory_is_made_room_in",
    ),
    Mutation(
        "workers that outlive their parent",
        "prudent.app:create_app",
        drop_call("leave_with_parent"),
        f"{TRUST}/test_surroundings.py::test_workers_end_with_their_parent",
    ),
)
