"""Faults in what guards the stored rows: the log's digest, its bounds, the file, quarantine."""

from tests.mutation_edits import Mutation, drop_call, drop_try, replace, skip_branch

TRUST = "tests/trust"
DIGESTS = f"{TRUST}/test_digests.py"
FILES = f"{TRUST}/test_files.py"
STORAGE = (
    Mutation(
        "log rows without a digest",
        "prudent.ledger.state:CampaignState.number",
        replace("log.digest_of(self.standing.digest, numbered)", "None"),
        f"{DIGESTS}::test_a_row_that_changes_is_found",
    ),
    Mutation(
        "a digest that leaves out the reward",
        "prudent.store.log:digest_of",
        replace("reward + 0.0", "0.0"),
        f"{DIGESTS}::test_a_row_that_changes_is_found",
    ),
    Mutation(
        "a digest that each row begins anew",
        "prudent.store.log:digest_of",
        replace("before or b''", "b''"),
        f"{DIGESTS}::test_a_row_written_anew_with_a_digest_of_its_own_is_found",
    ),
    Mutation(
        "the digest continued from another row than the last",
        "prudent.store.campaigns:_LAST_DIGEST",
        replace("heads.c.head", "heads.c.head - 1"),
        f"{DIGESTS}::test_two_workers_continue_one_digest",
    ),
    Mutation(
        "an import that does not look at the digests of its rows",
        "prudent.transfer.reading:CampaignFile._continue",
        skip_branch("row.digest != expected"),
        f"{DIGESTS}::test_an_import_refuses_a_log_that_was_changed",
    ),
    Mutation(
        "a scrubber that keeps to itself what it finds",
        "prudent.ledger.maintenance:Scrubber.step",
        skip_branch("changed and key not in self._damaged"),
        f"{DIGESTS}::test_the_scrubber_finds_it_and_says_so",
    ),
    Mutation(
        "no bounds on log rows",
        "migrations.versions.20261129_running_digest:upgrade",
        drop_call("op.create_check_constraint"),
        f"{DIGESTS}::test_the_database_refuses_a_row_that_cannot_be_learned",
    ),
    # the file
    Mutation(
        "a file that is gone is still acknowledged into",
        "prudent.store.statements:OpenedFile._look",
        skip_branch("(found.st_dev, found.st_ino) != self._opened[place]"),
        f"{FILES}::test_what_cannot_be_recorded_is_not_acknowledged[replaced]",
    ),
    Mutation(
        "a second name is no matter",
        "prudent.store.statements:OpenedFile.check",
        skip_branch("database.st_nlink != 1"),
        f"{FILES}::test_what_is_put_right_is_served_again[a second name]",
    ),
    Mutation(
        "a truncated file is no matter",
        "prudent.store.statements:OpenedFile.check",
        skip_branch(
            "database.st_size < self._bytes and (not database.st_size or _bytes_of(connection) > database.st_size)"
        ),
        f"{FILES}::test_what_cannot_be_recorded_is_not_acknowledged[emptied]",
    ),
    Mutation(
        "a truncated log is no matter",
        "prudent.store.statements:OpenedFile.check",
        skip_branch("is_cut or (log.st_size and header[:4] not in _WAL_MAGIC)"),
        f"{FILES}::test_what_cannot_be_recorded_is_not_acknowledged[its log emptied]",
    ),
    Mutation(
        "the file is looked at before the commit only",
        "prudent.ledger.ledger:Ledger._attempt",
        drop_try("LostFileError"),
        f"{FILES}::test_a_commit_into_a_file_that_goes_meanwhile_is_not_acknowledged",
    ),
    Mutation(
        "SQLite syncs its log only now and then",
        "prudent.store.engines:_create_sqlite",
        replace("'synchronous = FULL'", "'synchronous = NORMAL'"),
        f"{TRUST}/test_power_loss.py::test_the_power_goes_at_any_moment",
    ),
    # quarantine
    Mutation(
        "bad rows are everybody's matter",
        "prudent.ledger.quarantine:BAD_ROWS",
        replace("(ValueError, LookupError, ArithmeticError, TypeError)", "()"),
        f"{TRUST}/test_quarantine.py::test_one_campaign_is_out_of_service[sqlite-an unknown arm]",
    ),
    Mutation(
        "one number taken for all features of a row",
        "prudent.core.policy:Policy.observe",
        skip_branch("features.shape != (self.feature_map.dimension,)"),
        f"{TRUST}/test_quarantine.py::test_one_number_is_not_taken_for_all_features[sqlite-features of another length]",
    ),
    Mutation(
        "one number taken for all features of an arm",
        "prudent.ledger.state:CampaignState._set_arms",
        replace("self.reader.is_whole(one, self.reader.arm_length)", "True"),
        f"{TRUST}/test_quarantine.py::test_one_number_is_not_taken_for_all_features[sqlite-an arm's features]",
    ),
    Mutation(
        "a quarantine without an end",
        "prudent.ledger.quarantine:Quarantine.held",
        replace("abs(now - since) < RETRY_US", "True"),
        f"{TRUST}/test_quarantine.py::test_a_campaign_that_is_repaired_comes_back_by_itself",
    ),
    Mutation(
        "deadlines of a quarantined campaign are swept again and again",
        "prudent.ledger.maintenance:Maintenance._find_expired",
        replace("self._states.quarantine.held(self._clock())", "[]"),
        f"{TRUST}/test_quarantine.py::test_its_deadlines_do_not_stand_before_those_of_others",
    ),
    Mutation(
        "a damaged decision is learned from",
        "prudent.ledger.rewards:_append",
        drop_call("_check_stored"),
        f"{TRUST}/test_quarantine.py::test_a_damaged_decision_is_that_decisions_matter",
    ),
    Mutation(
        "the clock that can be set decides",
        "prudent.clock:steady_clock",
        replace("ahead + elapsed()", "wall()"),
        f"{TRUST}/test_clocks.py::test_a_clock_that_is_set[sqlite]",
    ),
)
