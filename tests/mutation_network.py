"""Faults in what keeps clients and campaigns from harming each other, and in sessions."""

from tests.mutation_edits import Mutation, drop_call, drop_condition, drop_element, replace, skip_branch

TRUST = "tests/trust"
CONNECTIONS = "prudent.api.server.connections:Connections"
NETWORK = (
    # connections
    Mutation(
        "no deadline for an answer that is not read",
        f"{CONNECTIONS}._sweep",
        replace("now - before.since >= self._limits.unread_seconds_max", "False"),
        f"{TRUST}/test_slow_readers.py::test_an_answer_that_is_not_read_has_a_deadline[nothing]",
    ),
    Mutation(
        "connections with unread answers are not dropped",
        f"{CONNECTIONS}._rank",
        replace("0", "None"),
        f"{TRUST}/test_slow_readers.py::test_readers_that_stall_keep_nobody_out[the-same-peer]",
    ),
    Mutation(
        "one peer may have all connections",
        f"{CONNECTIONS}.__init__",
        replace("limits.connections_max * limits.peer_connections_percent // 100", "limits.connections_max"),
        f"{TRUST}/test_slow_readers.py::test_one_peer_does_not_push_out_the_others",
    ),
    Mutation(
        "/health refused like any other request",
        "prudent.api.server.protocol:BoundedProtocol.on_headers_complete",
        drop_condition("not self.url.startswith(b'/health/')"),
        f"{TRUST}/test_slow_readers.py::test_health_is_served_when_every_connection_is_in_use",
    ),
    Mutation(
        "all requests that have arrived are parsed at once",
        "prudent.api.server.protocol:BoundedProtocol._parse",
        skip_branch("self._has_request"),
        f"{TRUST}/test_slow_readers.py::test_requests_sent_at_once_are_bounded",
    ),
    Mutation(
        "refusals by the protocol are not counted",
        "prudent.api.server.protocol:BoundedProtocol._refuse",
        drop_call("self._all.count_refused"),
        f"{TRUST}/test_metrics.py::test_metrics_equal_the_truth[sqlite-1]",
    ),
    Mutation(
        "the fast lane asks for no key",
        "prudent.api.decisions:FastLane.enter",
        skip_branch("self._ring is not None and (not admits(self._ring, route.role, headers))"),
        "tests/api/test_fast_lane.py::test_keys_are_asked_for_by_both_ways",
    ),
    Mutation(
        "a stop does not wait for the fast lane",
        "prudent.api.server.protocol:BoundedProtocol.shutdown",
        replace("self._passage is None", "True"),
        "tests/api/test_fast_lane.py::test_a_stop_waits_for_the_requests_in_the_lane",
    ),
    # the ledger's time
    Mutation(
        "no share of a batch's time",
        "prudent.ledger.batch:Batch._state",
        skip_branch("self._shares.is_over(state.key, state.command_seconds)"),
        f"{TRUST}/test_heavy_requests.py::test_a_campaign_that_takes_long_is_overtaken",
    ),
    Mutation(
        "a model described on the ledger's thread",
        "prudent.ledger.batch:Batch._describe",
        replace("known_report(state, damage)", "describe(state, damage)"),
        f"{TRUST}/test_heavy_requests.py::test_a_model_is_described_off_the_ledgers_thread",
    ),
    Mutation(
        "a look for what was meant with each select",
        "prudent.ledger.batch:Batch._named",
        skip_branch("self._missed > HINTS_MAX"),
        f"{TRUST}/test_heavy_requests.py::test_what_may_have_been_meant_is_found_at_once[sqlite-campaigns]",
    ),
    Mutation(
        "a large warm start learned inside its transaction",
        "prudent.ledger.rewards:observe",
        replace("state.takes_long(len(fresh))", "False"),
        f"{TRUST}/test_heavy_requests.py::test_a_warm_start_that_takes_long_is_learned_outside_its_transaction",
    ),
    # sessions, and what is stored
    Mutation(
        "signing out leaves no trace",
        "prudent.store.keys:end_session",
        skip_branch("session not in find_ended_sessions(connection)"),
        f"{TRUST}/test_sessions.py::test_a_session_that_was_signed_out_is_over[sqlite-1]",
    ),
    Mutation(
        "answers may be stored",
        "prudent.api.server.middleware:GUARDS",
        drop_element("(b'cache-control', b'no-store')"),
        f"{TRUST}/test_sessions.py::test_nothing_with_data_is_stored_and_everything_has_a_policy",
    ),
    # work in the browser
    Mutation(
        "a form of another session is taken",
        "prudent.dashboard.forms:read_own_form",
        skip_branch("not sessions.is_form_token(values.pop(TOKEN, ''), session)"),
        "tests/dashboard/work/test_access.py::test_a_form_that_is_not_ours_changes_nothing",
    ),
    Mutation(
        "a form is carried out before it is confirmed",
        "prudent.dashboard.confirmation:Confirmations.add",
        replace("CONFIRMED in values", "True"),
        "tests/dashboard/work/test_campaigns.py::test_a_campaign_is_made_as_the_api_makes_it",
    ),
    Mutation(
        "a writer manages campaigns",
        "prudent.security.keys:role_needed",
        replace("'admin'", "'writer'"),
        "tests/dashboard/work/test_access.py::test_only_an_admin_changes_anything",
    ),
    Mutation(
        "an erasure leaves the ids in the trail",
        "prudent.ledger.trail:execute",
        skip_branch("isinstance(outcome, ErasureReceipt) and isinstance(given, EraseDecisions) and (key is not None)"),
        "tests/ledger/test_trail.py::test_a_reward_by_hand_and_its_correction_are_noted_without_their_values",
    ),
)
