"""Small changes to the linearizability checker, each of which breaks one of its rules."""

from __future__ import annotations

from tests.support.mutations.mutation import Mutation

METHODS = "checkers/linearizability/test_methods.py::"
VERDICTS = "checkers/linearizability/test_linearizable.py::"
AGREEMENT = "checkers/linearizability/test_agreement.py::"
EXHAUSTIVE = "checkers/linearizability/test_exhaustive.py::"
REGISTERS = "checkers/linearizability/test_registers.py::"
SWEEPS = "checkers/linearizability/test_sweep.py::"
LAYERS = "checkers/linearizability/test_layers.py::test_one_configuration_stands_for_another"
EVERY_SMALL = EXHAUSTIVE + "test_every_small_history_is_judged_as_by_brute_force"
WINDOWS = REGISTERS + "test_windows_of_longer_histories_are_judged_as_by_brute_force"
RARE = REGISTERS + "test_histories_for_which_a_small_change_of_the_search_finds_no_order"
SWEPT = SWEEPS + "test_a_sweep_agrees_with_zones_key_by_key"
GUESSED = METHODS + "test_a_guessed_order_of_a_string"
FORCED = METHODS + "test_the_forced_order_of_a_string"
POSITIONS = METHODS + "test_positions_force_the_order_of_a_log"
ALONE = REGISTERS + "test_searches_take_equal_times_as_concurrent_and_ops_that_are_alone_at_once"
FROM_EVERY = REGISTERS + "test_calls_that_are_alone_are_judged_from_every_value_that_may_be_there"
STEPS = "checkers/models/test_models.py::test_ops_one_after_the_other"
TEXTBOOK = AGREEMENT + "test_longer_histories_of_few_kinds_of_ops_are_judged_as_by_the_textbook"


def _of(file: str, *rows: tuple[str, str, str]) -> tuple[Mutation, ...]:
    return tuple(Mutation(file, old, new, test) for old, new, test in rows)


MUTATIONS = (
    *_of(
        "linearizability/zones.py",
        ("if f < s]\n", "if f <= s]\n    forward = forward[1:]\n", EVERY_SMALL),
        ("if first[other] < last[one]:", "if first[other] < last[one] - 5:", EVERY_SMALL),
        (
            "before >= 0 and f < last[forward[before]]",
            "before > 0 and f < last[forward[before]]",
            EVERY_SMALL,
        ),
        ("if len(block) < len(rows) or start in block:", "if len(block) < len(rows):", EVERY_SMALL),
        ("if len(block) < len(rows) or start in block:", "if start in block:", EVERY_SMALL),
        ('if f == "read" and e != inf:', 'if f == "read":', METHODS + "test_zones"),
        ("if e < wrote[at]:", "if e < wrote[at] - 1:", EVERY_SMALL),
        ("if b > last[at]:", "if b > last[at] and at:", EVERY_SMALL),
    ),
    *_of(
        "linearizability/chains.py",
        (
            "if before.left_by is not None:",
            "if before.left_by == -1:",
            METHODS + "test_two_cas_from_one_value_are_named_and_nothing_else",
        ),
        ("if before is None:\n", "if before is None and row > 99:\n", EVERY_SMALL),
        (
            "if columns.end[value.row] < begun:",
            "if columns.end[value.row] < begun - 9:",
            EVERY_SMALL,
        ),
        ("if value.first < begun:", "if value.first < -1:", EVERY_SMALL),
        ("begun = max(begun, value.last)", "begun = max(begun, -inf)", EVERY_SMALL),
        (
            "            taken.add(maker.row)\n            needed.append",
            "            needed.append",
            EVERY_SMALL,
        ),
        (
            'if columns.f[maker.row] == "cas":\n                wanted.append',
            "if False:\n                wanted.append",
            EVERY_SMALL,
        ),
        ("if self._held[self._columns.value[row]].chain is None:", "if False:", EVERY_SMALL),
        ("if pair is not None:", "if pair is not None and pair[0] > 9:", EVERY_SMALL),
        (
            "if value.made_by < columns.begin[row] and columns.end[row] < value.lasts_to:",
            "if False:",
            METHODS + "test_chains",
        ),
        ("columns.begin[row] <= since or", "columns.begin[row] <= since + 2 or", EVERY_SMALL),
        ("columns.end[row] >= until", "columns.end[row] >= until - 4", EVERY_SMALL),
    ),
    *_of(
        "linearizability/sweep.py",
        (
            "if value in block:\n                doubt.add(key)",
            "if value in block:\n                pass",
            SWEEPS + "test_a_sweep_names_the_keys_that_are_not_surely_right",
        ),
        ("if at is None or e < wrote[at]:", "if at is None:", SWEPT),
        ("if lasts and first[at] < lasts[-1]:", "if len(lasts) > 9:", SWEPT),
        (
            "if before >= 0 and f < lasts[before]:",
            "if before >= 9:",
            SWEEPS + "test_a_sweep_names_the_keys_that_are_not_surely_right",
        ),
        (
            'elif f != "read":\n            doubt.add(key)',
            'elif f != "read":\n            pass',
            SWEEPS + "test_a_sweep_names_the_keys_that_are_not_surely_right",
        ),
    ),
    *_of(
        "linearizability/registers.py",
        (
            'while order and f[order[-1]] == "write":',
            'while order and f[order[-1]] in ("write", "cas"):',
            EVERY_SMALL,
        ),
        ("or bit == target\n", "\n", EVERY_SMALL),
        (
            "or (cas and blind & ~(done | optional | bit))",
            "or False",
            VERDICTS + "test_a_write_of_the_value_that_is_there_hides_an_earlier_one",
        ),
        (
            "if not optional & bit:\n                            break",
            "if True:\n                            break",
            RARE,
        ),
        ("options = (optional | blind) & ~now", "options = optional & ~now", EVERY_SMALL),
        ("options = (optional | blind) & ~now", "options = (optional | blind)", ALONE),
        ("options |= same_bit", "pass", WINDOWS),
        ("if unseen and value not in cas:", "if unseen:", EVERY_SMALL),
        ("if unseen and value not in cas:", "if value not in cas:", EVERY_SMALL),
        ("if not unneeded:\n", "if unneeded is None:\n", EVERY_SMALL),
        ("done |= reads.get(state, 0)\n", "pass\n", EVERY_SMALL),
        ("done |= any_not & ~nots.get(state, 0)", "done |= any_not", EVERY_SMALL),
        ("sees |= any_not & ~nots.get(value, 0)", "sees |= any_not", EVERY_SMALL),
        ("if bit == target or sees & target:", "if bit == target:", EVERY_SMALL),
        (
            "if optional & bit:\n                    after.add",
            "if False:\n                    after.add",
            EVERY_SMALL,
        ),
        ("if any(not rival & ~used for rival in rivals):", "if rivals:", RARE),
        ("self.cut = True", "pass", EVERY_SMALL),
        ("free = walk.open(row for", "free = 0 * walk.open(row for", EVERY_SMALL),
        ("values = {start, *columns.value}", "values = {start}", WINDOWS),
        ("elif is_not and state != seen:", "elif is_not:", EVERY_SMALL),
        ("while row < n and begin[row] <= now:", "while row < n and begin[row] < now:", ALONE),
        (
            "found.row = reached",
            "pass",
            REGISTERS + "test_a_wide_search_that_ran_out_early_leaves_open_what_a_narrow_one_did",
        ),
        (
            "end[found.row] > end[reached]",
            "True",
            REGISTERS + "test_a_wide_search_that_ran_out_early_leaves_open_what_a_narrow_one_did",
        ),
        ("now < begin[row + 1]):", "now <= begin[row + 1]):", ALONE),
        ("if target == row and not bits and", "if target == row and", EVERY_SMALL),
        ("[config for config in layer if config[0] != seen]", "layer", FROM_EVERY),
        ("if config[0] == seen:\n", "if True:\n", FROM_EVERY),
        ('[config if f == "read" else (self._columns.value[row], 0, 0)]', "[config]", FROM_EVERY),
        ("if seen[row] == state:\n", "if False:\n", FROM_EVERY),
        ("elif seen[row] != state:\n", "elif False:\n", FROM_EVERY),
        (
            'elif kind == "cas":\n                state',
            "elif False:\n                state",
            FROM_EVERY,
        ),
        ("if row > stop or (row < last and end[row] >=", "if (row < last and end[row] >=", ALONE),
        (
            "if row > stop or (row < last and end[row] >=",
            "if row > stop or (False and end[row] >=",
            ALONE,
        ),
        ("(optional | self._blind) & ~(done | bit))]", "optional & ~(done | bit))]", EVERY_SMALL),
        ("if optional & bit and (other :=", "if False and (other :=", EVERY_SMALL),
        (" and not self._seeing and not self._cas:", " and not self._cas:", EVERY_SMALL),
        (" and not self._seeing and not self._cas:", " and not self._seeing:", EVERY_SMALL),
    ),
    *_of(
        "linearizability/texts.py",
        ("if begin[row] <= last:", "if begin[row] < last:", GUESSED),
        ("rows[at - 1 :], state)", "rows[at:], state)", GUESSED),
        ("state = state[: len(state) - len(value[before])]", "pass", GUESSED),
        ("state = replaced", "pass", GUESSED),
        (
            "        if wrong:\n            return False\n",
            "",
            METHODS + "test_guesses_that_pass_are_right_by_the_textbook",
        ),
        ("seen[row] != state and last != inf", "seen[row] != state", GUESSED),
        (
            "return not wrong",
            "return True",
            METHODS + "test_what_was_appended_twice_is_taken_from_the_last_that_had_begun",
        ),
        ("elif end[row] != inf:", "elif end[row] != -inf:", GUESSED),
        ("if low <= n and longest.startswith(text):", "if longest.startswith(text):", GUESSED),
        ("if low <= n and longest.startswith(text):", "if low <= n:", GUESSED),
        ("first = not begun and text.startswith(start)", "first = not begun", GUESSED),
        ("begun = True", "pass", GUESSED),
        (
            "if n not in placed:\n            return None",
            "if n not in placed:\n            continue",
            METHODS + "test_strings_by_key_are_judged_by_the_cheapest_method_that_can",
        ),
        ("if at and self._f[row]", "if at > 99 and self._f[row]", GUESSED),
        ("row = rows.pop(part, None)", "row = rows.get(part)", GUESSED),
        ("or 0 in lengths", "", GUESSED),
        ("return [*self.rows.values(), *(", "return [*(", GUESSED),
        (
            "row for rows in self._again.values() for row in rows)]",
            ")]",
            METHODS + "test_guesses_that_pass_are_right_by_the_textbook",
        ),
        ('[row for row in left if f[row] == "append"]', "list[int]()", GUESSED),
        ('for row in left if f[row] == "put"]', "for row in left if False]", GUESSED),
        ("while since != -inf and at", "while at", GUESSED),
        ("for row in order + unseen[at:]:", "for row in order:", GUESSED),
        ("if end[row] < latest:", "if end[row] < latest - 3:", GUESSED),
    ),
    *_of(
        "linearizability/forced.py",
        (
            "if any(len(part) > short and part[:short] in makers for part in makers):",
            "if False:",
            METHODS + "test_where_a_string_can_be_read_in_two_ways_there_is_no_forced_order",
        ),
        (
            "return None if twice and not zones.linearizable else zones",
            "return zones",
            METHODS + "test_what_was_appended_twice_is_taken_from_the_last_that_had_begun",
        ),
        ("if e < last or returned < begin[row]:", "if returned < begin[row]:", FORCED),
        (
            "if returned < last:\n                return None",
            "if False:\n                return None",
            METHODS + "test_strings_by_key_are_judged_by_the_cheapest_method_that_can",
        ),
        ("if overlap(first, last) is not None:", "if False:", FORCED),
        ("return not any(a < begin[row] and end[row] < z", "return not any(False", FORCED),
        (
            "if begin[r] <= by), rows[0])",
            "if True), rows[0])",
            METHODS + "test_what_was_appended_twice_is_taken_from_the_last_that_had_begun",
        ),
        ("place is None or block.text[:n] != seen", "place is None", FORCED),
        ("if seen[:at] != block.text:", "if False:", FORCED),
        ("if row is None or row in self._placed or", "if row is None or", FORCED),
        ("if seen in placed:\n", "if seen == -1:\n", POSITIONS),
        ("if columns.end[row] < last:", "if columns.end[row] < -1:", POSITIONS),
        ("len(seen) > length or values[: len(seen)] != seen", "len(seen) > length", POSITIONS),
        ("(gaps or any(n > len(placed) for n, _, _ in reads))", "False", POSITIONS),
    ),
    *_of(
        "linearizability/layers.py",
        ("if optional_other & ~optional:", "if False:", LAYERS),
        ("if differ & self._seeing & done_other:", "if False:", LAYERS),
        ("return not differ & self._unknown & done", "return True", LAYERS),
        ("if differ & ~(optional | self._seeing | self._unknown):", "if False:", LAYERS),
    ),
    *_of(
        "linearizability/search.py",
        (
            "        if done & bit:\n                after.add",
            "        if False:\n                after.add",
            FORCED,
        ),
        ("events[-1][2].action.total", "True", FORCED),
        ("outcome.at = furthest", "pass", METHODS + "test_so_does_the_general_search"),
        (
            "self._blind) if is_blind else optional)",
            "0) if is_blind else optional)",
            VERDICTS + "test_what_a_correct_register_answers_is_valid_by_both_methods",
        ),
        ("if unneeded and is_blind:", "if unneeded:", POSITIONS),
    ),
    *_of(
        "linearizability/calls.py",
        (
            'return op.type != "invoke"',
            'return op.type == "invoke"',
            VERDICTS + "test_equal_times_are_concurrent",
        ),
        (
            'end is not None and end.type != "info"',
            "end is not None",
            REGISTERS + "test_longer_random_histories_agree_with_the_textbook",
        ),
    ),
    *_of(
        "limits/budget.py",
        (
            "self.memory() + soon_bytes > self.memory_bytes * _SHARE",
            "self.memory() > self.memory_bytes",
            METHODS + "test_a_search_stops_at_three_quarters_of_its_memory",
        ),
        (
            "if self.clock() > self.deadline_s:",
            "if False:",
            METHODS + "test_time_that_has_run_out_leaves_the_key_and_the_row_undecided",
        ),
        (
            "if held > self.configurations_max:",
            "if False:",
            VERDICTS + "test_too_many_configurations_are_unknown_with_key_and_place",
        ),
    ),
    *_of(
        "linearizability/methods.py",
        (
            "late = latest >= 0 and",
            "late = latest > 9 and",
            METHODS + "test_blocks_of_ids_are_given_once_and_upwards",
        ),
        ("if isinstance(to, Illegal) or late:", "if late:", TEXTBOOK),
    ),
    *_of(
        "models/producer_ids.py",
        (
            "return first + count if first >= state else ILLEGAL",
            "return first + count",
            STEPS,
        ),
    ),
    *_of(
        "models/multi_registers.py",
        (
            "elif now.get(key) != value:",
            "elif False:",
            STEPS,
        ),
    ),
    *_of(
        "models/isr.py",
        (
            "if action.seen == state[0] else ILLEGAL",
            "if True else ILLEGAL",
            STEPS,
        ),
        (
            "return ILLEGAL if action.seen == state[0] else state",
            "return state",
            METHODS + "test_an_isr_changes_once_for_each_epoch",
        ),
    ),
    *_of(
        "models/registers.py",
        ("return ILLEGAL if action.seen == state else state", "return state", TEXTBOOK),
        (
            "return action.value if action.seen == state else ILLEGAL",
            "return action.value",
            TEXTBOOK,
        ),
    ),
    *_of(
        "models/lists.py",
        ("action.seen != len(state):", "False:", TEXTBOOK),
    ),
    *_of(
        "models/mutex.py",
        ('if held is (action.f == "acquire"):', "if False:", STEPS),
    ),
    *_of(
        "models/sets.py",
        ("return state - {action.value}", "return state", STEPS),
    ),
)
