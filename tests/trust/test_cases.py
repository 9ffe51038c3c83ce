"""Known faults of services like this one, by the number they were collected under, and where each is tested.

What nothing else covers is tested in `test_known_faults.py`. A case whose test is renamed or removed fails here.
"""

import re

import pytest

from tests.servers import ROOT

API, CORE, TRUST = "tests/api", "tests/core", "tests/trust"
KNOWN = f"{TRUST}/test_known_faults.py"
TESTED = {
    "B01": f"{API}/test_learning.py::test_constant_context",
    "B05": f"{KNOWN}::test_bonus_of_arms_without_rewards",
    "B06": f"{CORE}/test_forgetting.py::test_what_was_never_seen_is_not_forgotten",
    "B07": f"{CORE}/test_forgetting.py::test_a_million_rows_of_one_feature_leave_the_state_finite",
    "B17": f"{CORE}/test_off_policy.py::test_values_by_hand",
    "B11": f"{API}/test_learning.py::test_from_nothing_and_from_one",
    "B12": f"{CORE}/test_policy.py::test_what_is_not_finite_is_refused_before_anything_changes",
    "B13": f"{API}/test_learning.py::test_negative_rewards",
    "B14": f"{KNOWN}::test_features_of_any_size_give_finite_scores",
    "B19": "tests/end_to_end/test_reproducibility.py::test_an_interruption_changes_no_later_arm",
    "B20": f"{CORE}/test_policy.py::test_a_loaded_state_goes_on_to_the_last_bit",
    "B21": f"{TRUST}/test_upgrades.py::test_a_released_schema_opens_migrates_and_verifies",
    "B23": f"{API}/test_arms.py::test_reward_of_an_arm_retired_meanwhile",
    "B25": f"{API}/test_arms.py::test_add_an_arm",
    "B26": f"{API}/test_select.py::test_dimension",
    "B27": f"{TRUST}/test_deadlines.py::test_the_deadline_decides_and_not_the_sweep",
    "B28": f"{API}/test_reward.py::test_fifty_zeros",
    "B29": f"{API}/test_reward.py::test_concurrent_rewards",
    "B30": f"{API}/test_reward.py::test_unknown_decision",
    "B32": f"{API}/test_bad_fields.py::test_value_outside_its_range",
    "B33": f"{API}/test_select.py::test_restricted_choice",
    "B34": "tests/end_to_end/test_first_campaign.py::test_a_default_campaign_learns",
    "B36": f"{API}/test_bad_fields.py::test_value_outside_its_range",
    "B37": f"{TRUST}/test_starting.py::test_a_damaged_file_is_refused",
    "N04": f"{CORE}/numerics/test_newton.py::test_heavy_tails_at_extreme_levels_always_certify",
    "N05": f"{CORE}/numerics/test_newton.py::test_a_solve_cut_short_is_not_certified",
    "N06": f"{KNOWN}::test_collinear_features",
    "N07": f"{CORE}/numerics/test_newton.py::test_rewards_in_other_units_give_the_same_model_in_those_units",
    "N08": f"{CORE}/numerics/test_newton.py::test_entropic_with_huge_features_and_rewards_never_overflows",
    "N09": f"{CORE}/estimators/test_exact.py::test_exact_keeps_its_estimate_when_a_solve_has_no_certificate",
    "N10": f"{CORE}/numerics/test_newton.py::test_identical_features_share_their_weight",
    "N11": f"{KNOWN}::test_rewards_that_a_feature_determines",
    "N12": f"{CORE}/numerics/test_newton.py::test_small_and_degenerate_data",
    "N13": f"{CORE}/measures/test_losses.py::test_derivatives_agree_with_finite_differences_on_both_sides_of_the_kink",
    "N17": f"{CORE}/measures/test_losses.py::test_overflow_is_infinite_and_silent",
    "N18": f"{KNOWN}::test_threads_change_no_bit",
    "N20": f"{API}/test_reward.py::test_reward_outside_the_bounds",
    "W01": f"{API}/test_bad_fields.py::test_number_that_is_none",
    "W03": f"{API}/test_bad_fields.py::test_id_outside_the_grammar",
    "W04": f"{API}/test_bad_fields.py::test_number_that_is_none",
    "W05": f"{API}/test_bad_fields.py::test_id_in_a_path",
    "W06": f"{API}/test_bad_bodies.py::test_body_that_is_no_object",
    "W10": f"{TRUST}/test_commits.py::test_a_success_is_committed",
    "W12": f"{TRUST}/test_disconnects.py::test_clients_that_leave_leak_nothing",
    "W14": f"{TRUST}/test_crashes.py::test_a_database_restart_is_survived",
    "W16": "tests/end_to_end/test_concurrency.py::test_clients_at_once_lose_double_and_skip_nothing",
    "W17": f"{TRUST}/test_faults.py::test_a_locked_sqlite_file",
    "W19": "tests/mutations.py::main",
    "W20": f"{TRUST}/test_exactly_once.py::test_identical_rewards_at_once_are_one_observation",
    "W21": f"{KNOWN}::test_identical_rewards_while_the_commit_is_slow",
    "W23": f"{TRUST}/test_upgrades.py::test_starters_at_once_migrate_once",
    "W24": f"{TRUST}/test_upgrades.py::test_down_to_the_first_revision_and_up_again_changes_no_data",
    "W25": f"{KNOWN}::test_migrations_make_every_constraint",
    "W26": f"{API}/test_observations.py::test_same_instant_in_another_zone",
    "W31": f"{API}/test_bad_fields.py::test_value_outside_its_range",
    "W32": f"{API}/test_bad_fields.py::test_number_that_is_none",
    "W34": f"{API}/test_bad_fields.py::test_id_outside_the_grammar",
    "W40": f"{API}/test_operations.py::test_metrics_hold_no_ids",
    "W41": "tests/ledger/test_workers.py::test_a_retired_arm_on_one_worker_is_retired_on_the_other",
    "W43": f"{KNOWN}::test_no_reader_holds_up_the_log",
    "W44": f"{TRUST}/test_disks.py::test_an_sqlite_file_on_a_full_volume",
    "W46": f"{TRUST}/test_files.py::test_two_servers_never_share_a_file",  # of a server, one process writes
    "W47": f"{TRUST}/test_deadlines.py::test_setting_the_wall_clock_moves_no_deadline",
    "W48": f"{API}/test_operations.py::test_openapi_operations",
    "W50": f"{TRUST}/test_faults.py::test_a_postgres_that_stalls",
}
LEFT_OUT = {
    "B10": "matrices cannot grow so large: features are at most 1e6 in magnitude",
    "N16": "no claim about quantiles or crossings is made",
    "W07": "limits of bodies: tested with the API's bodies",
    "W08": "limits of bodies: tested with the API's bodies",
    "W09": "limits of connections: tested with hostile clients",
    "W30": "states are bytes of the whole, never a tracked object",
    "W37": "keys: tested with authentication",
    "W45": "a network file system is not detected; docs/operations.md says that the disk must be local",
    "W49": "limits of a request: tested with hostile clients",
}


def test_no_case_is_forgotten() -> None:
    """A fault that was seen elsewhere would be met again."""
    assert not TESTED.keys() & LEFT_OUT.keys()
    assert len(TESTED) + len(LEFT_OUT) == 74


@pytest.mark.parametrize("test", sorted(set(TESTED.values())))
def test_the_test_of_a_case_is_there(test: str) -> None:
    """A list that points nowhere protects from nothing."""
    file, _, name = test.partition("::")
    source = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", source, re.MULTILINE), test
