"""Faults in what guards the stored rows: the log's digest, its bounds, the file, quarantine."""

from tests.mutation_edits import Mutation, drop_call, replace, skip_branch

TRUST = "tests/trust"
DIGESTS = f"{TRUST}/test_digests.py"
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
        f"{DIGESTS}::test_a_row_that_changes_is_found[sqlite-two rows exchanged]",
    ),
    Mutation(
        "the digest continued from another row than the last",
        "prudent.store.campaigns:_WITH_LAST_ROW",
        replace("heads.c.head", "heads.c.head - 1"),
        f"{DIGESTS}::test_two_workers_continue_one_digest",
    ),
    Mutation(
        "an import that does not look at the digests of its rows",
        "prudent.transfer.reading:CampaignFile.add_observation",
        skip_branch("row.digest != expected"),
        f"{DIGESTS}::test_an_import_refuses_a_log_that_was_changed",
    ),
    Mutation(
        "a scrubber that keeps to itself what it finds",
        "prudent.ledger.maintenance:Scrubber.step",
        skip_branch("changed and key not in self._states.damaged"),
        f"{DIGESTS}::test_the_scrubber_finds_it_and_says_so",
    ),
    Mutation(
        "no bounds on log rows",
        "migrations.versions.20261129_running_digest:upgrade",
        drop_call("op.create_check_constraint"),
        f"{DIGESTS}::test_the_database_refuses_a_row_that_cannot_be_learned",
    ),
)
