"""Which tests hold which case of the catalogue, beside those that the decorator `case` names itself.

What is written here is checked: every test exists, and every case has one.
"""

from __future__ import annotations

from typing import Final

CASES: Final = tuple(f"S-{number:02d}" for number in range(1, 82))

IN_CONTAINERS: Final = {
    "S-44": "a direct way out of a sandbox",
    "S-45": "UDP, ICMP, IPv6 and SCTP out of a sandbox",
    "S-48": "gateways and neighbours of a container",
    "S-50": "spoofing of a neighbour's address",
    "S-51": "privileges, mounts and sockets of a container",
    "S-52": "the proxy's death, as seen from inside",
}
"""Held by nobody before sandboxes are started: what is missing is the container."""

ELSEWHERE: Final[dict[str, tuple[str, ...]]] = {
    "S-01": ("attack/test_destination.py::test_a_name_that_is_only_alike_is_denied_at_every_entry",),
    "S-02": ("attack/test_reload.py::test_without_sound_rules_it_does_not_start",),
    "S-03": ("attack/test_exchange.py::test_a_host_without_a_rule_for_a_secret_gets_none",),
    "S-04": (
        "attack/test_credentials.py::test_its_authorization_is_replaced_by_exactly_one",
        "attack/test_exchange.py::test_what_the_sandbox_puts_into_the_slot_is_replaced",
    ),
    "S-05": ("attack/test_credentials.py::test_a_placeholder_on_another_host_is_denied_and_never_swapped",),
    "S-06": (
        "attack/test_credentials.py::test_a_placeholder_outside_its_slot_is_not_swapped",
        "attack/test_exchange.py::test_a_placeholder_outside_its_slot_is_never_swapped",
    ),
    "S-07": ("attack/test_reflection.py::test_no_echo_in_a_body_gets_through_in_any_chunks",),
    "S-08": ("attack/test_reflection.py::test_a_compressed_body_does_not_hide_the_secret",),
    "S-09": ("attack/test_reflection.py::test_no_echo_in_a_head_gets_through",),
    "S-10": (
        "attack/test_destination.py::test_a_tunnel_to_an_unknown_host_gains_nothing_from_a_known_name",
        "attack/test_exchange.py::test_a_connection_to_evil_that_names_the_injected_host_gets_nothing",
    ),
    "S-11": (
        "attack/test_destination.py::test_a_connect_whose_host_field_names_another_is_refused",
        "attack/test_exchange.py::test_an_allowed_connection_cannot_front_for_another_host",
    ),
    "S-12": ("attack/test_names.py::test_case_and_one_trailing_dot_are_the_same_host",),
    "S-13": ("attack/test_names.py::test_a_name_that_is_only_alike_is_denied",),
    "S-14": ("attack/test_destination.py::test_another_port_of_an_allowed_host_is_denied",),
    "S-15": (
        "attack/test_destination.py::test_clear_text_to_an_https_host_is_denied",
        "attack/test_destination.py::test_clear_text_inside_a_tunnel_for_tls_is_closed",
    ),
    "S-16": ("attack/test_paths.py::test_no_spelling_of_a_dot_segment_leaves_the_scope",),
    "S-17": ("attack/test_methods.py::test_a_method_that_no_rule_names_is_denied",),
    "S-18": (
        "attack/test_addresses.py::test_refuses_every_numeric_spelling",
        "attack/test_ssrf.py::test_a_literal_that_the_rules_do_not_name_is_not_dialled",
    ),
    "S-19": ("attack/test_ssrf.py::test_a_name_that_resolves_into_the_network_is_not_dialled",),
    "S-20": ("attack/test_destination.py::test_raw_bytes_inside_a_tunnel_are_not_relayed",),
    "S-21": ("attack/test_upstream_tls.py::test_an_upstream_with_a_bad_certificate_gets_no_request",),
    "S-22": ("attack/test_upstream_tls.py::test_an_upstream_with_a_bad_certificate_gets_no_request",),
    "S-23": ("attack/test_framing.py::test_a_framing_that_can_be_read_in_two_ways_is_refused",),
    "S-24": ("attack/test_destination.py::test_two_host_fields_are_refused",),
    "S-25": ("attack/test_websocket.py::test_s25_no_rule_no_websocket",),
    "S-26": ("attack/test_destination.py::test_a_name_that_is_only_alike_is_denied_at_every_entry",),
    "S-27": ("attack/test_destination.py::test_a_request_that_is_not_for_a_proxy_goes_nowhere",),
    "S-28": (
        "attack/test_guard.py::test_a_call_that_fails_ends_the_connection",
        "attack/test_guard.py::test_a_hook_that_fails_ends_the_connection",
    ),
    "S-29": ("attack/test_guard.py::test_a_value_that_never_comes_denies",),
    "S-30": ("attack/test_reload.py::test_bad_rules_change_nothing_and_each_is_recorded",),
    "S-31": (
        "attack/test_reload.py::test_bad_rules_change_nothing_and_each_is_recorded",
        "attack/test_rule_files.py::test_an_empty_file_denies_everything",
    ),
    "S-32": ("attack/test_rule_files.py::test_a_typo_is_refused_with_its_line",),
    "S-33": ("attack/test_rule_files.py::test_where_rules_overlap_the_deny_wins_in_any_order",),
    "S-34": ("attack/test_paths.py::test_no_pattern_takes_for_ever",),
    "S-35": ("attack/test_secrets.py::test_a_control_byte_inside_is_refused_from_every_source",),
    "S-36": ("attack/test_secrets.py::test_a_rotated_file_is_seen_in_time_and_the_old_value_never_again",),
    "S-37": ("attack/test_exchange.py::test_a_secret_that_cannot_be_had_refuses_the_request",),
    "S-38": (
        "attack/test_secrets.py::test_no_object_shows_a_value",
        "attack/test_secrets.py::test_no_exception_shows_a_value_even_with_the_variables_of_its_frames",
    ),
    "S-39": ("attack/test_secrets.py::test_commands_work_in_a_hardened_process",),
    "S-40": ("attack/test_secrets.py::test_a_value_of_the_environment_reaches_no_other_process",),
    "S-41": ("attack/test_trust.py::test_nothing_a_sandbox_is_given_holds_the_key",),
    "S-42": ("attack/test_trust.py::test_the_authority_of_one_sandbox_is_nothing_in_another",),
    "S-43": ("attack/test_trust.py::test_a_stolen_constrained_key_is_worth_nothing_elsewhere",),
    "S-46": ("attack/test_dns.py::test_what_is_no_plain_question_gets_no_data",),
    "S-47": ("attack/test_dns.py::test_a_name_full_of_data_goes_nowhere",),
    "S-49": ("proxy/test_control.py::test_only_its_owner_can_get_at_it",),
    "S-53": ("proxy/test_audit_kill.py::test_every_request_that_could_be_sent_is_told_exactly_once",),
    "S-54": (
        "proxy/test_identity.py::test_anything_but_the_right_password_is_refused",
        "proxy/test_identity.py::test_guessing_is_slowed_down",
    ),
    "S-55": ("attack/test_http1_relay.py::test_s55_an_allowed_request_opens_no_door_for_the_next",),
    "S-56": ("attack/test_exchange.py::test_a_redirect_to_evil_leads_to_a_decision_of_its_own",),
    "S-57": ("presets/test_theft.py::test_an_issue_or_a_gist_cannot_be_opened_elsewhere",),
    "S-58": ("presets/test_theft.py::test_a_push_goes_to_the_named_repository_alone",),
    "S-59": (
        "attack/test_methods.py::test_no_mutation_hides_behind_a_read",
        "presets/test_theft.py::test_graphql_is_closed_as_a_whole",
    ),
    "S-60": ("presets/test_theft.py::test_a_wide_rule_in_the_file_does_not_open_what_a_preset_denies",),
    "S-61": ("presets/test_theft.py::test_a_wide_rule_in_the_file_does_not_open_what_a_preset_denies",),
    "S-62": ("presets/test_theft.py::test_a_wide_rule_in_the_file_does_not_open_what_a_preset_denies",),
    "S-63": ("presets/test_theft.py::test_a_prompt_is_bounded_in_size_and_number",),
    "S-64": ("property/test_limits.py::test_no_window_holds_more_than_burst_and_pace",),
    "S-65": ("attack/test_floods.py::test_idle_tunnels_of_one_sandbox_leave_the_others_their_places",),
    "S-66": ("proxy/clients/test_bulk.py::test_an_upload_takes_no_more_memory_than_a_small_one",),
    "S-67": (
        "attack/test_audit.py::test_s67_a_full_disk_stops_the_sandbox_then_everybody_and_nothing_is_lost",
    ),
    "S-68": ("attack/test_audit.py::test_s68_whoever_changes_a_line_without_the_key_is_found",),
    "S-69": (
        "attack/test_audit.py::test_s69_a_line_cut_by_a_kill_leaves_one_explicit_gap",
        "attack/test_audit.py::test_s69_two_writers_cannot_happen",
    ),
    "S-70": ("attack/test_audit.py::test_s70_names_and_numbers_are_there_and_values_are_not",),
    "S-71": ("attack/test_audit.py::test_s71_the_sequence_grows_when_the_clock_is_put_back",),
    "S-72": ("proxy/test_log_level.py::test_no_secret_is_in_any_log_at_any_level",),
    "S-73": ("attack/test_http2.py::test_s73_a_body_that_reads_as_a_request_is_a_body",),
    "S-74": (
        "attack/test_http2.py::test_s74_a_window_that_never_opens_holds_the_upstream",
        "attack/test_http2.py::test_s74_fifty_streams_of_events_all_move",
    ),
    "S-75": (
        "attack/test_websocket.py::test_s75_pings_and_pongs_are_searched",
        "attack/test_websocket.py::test_s75_the_reason_of_a_close_is_searched",
    ),
    "S-76": (
        "attack/test_exchange.py::test_a_cookie_does_not_come_back_from_an_injected_request",
        "attack/test_exchange.py::test_a_signed_location_is_a_credential",
    ),
    "S-77": ("attack/test_reload.py::test_the_rules_of_a_hostile_repository_are_not_used",),
    "S-78": ("attack/test_listener.py::test_another_user_of_the_machine_is_not",),
    "S-79": ("attack/test_ssrf.py::test_the_machine_is_not_dialled_by_its_public_address",),
    "S-80": ("proxy/test_withdrawal.py::test_a_kill_of_the_secret_ends_what_was_sent_with_it",),
    "S-81": ("attack/test_audit.py::test_s81_a_sandbox_that_fills_the_log_is_stopped_alone",),
}
"""Tests that hold a case without this lab, below tests/."""
