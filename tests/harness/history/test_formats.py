"""Reading history files: EDN, Jepsen, Porcupine, JSON lines, and what is none of them."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.linearizable import check_file
from harness.errors import HistoryFormatError, UsageError
from harness.history.formats import LoadedHistory, read_history
from harness.history.formats.edn import (
    DEPTH_MAX,
    EdnError,
    EdnSet,
    Keyword,
    read_forms,
    read_records,
)
from harness.verdict import Valid


def forms(text: str) -> list[Any]:
    return [form for _, form in read_forms(text.splitlines(keepends=True))]


def load(tmp_path: Path, text: str | bytes, format_: str = "auto") -> LoadedHistory:
    path = tmp_path / "history"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_history(path, format_)


# --------------------------------------------------------------------------- EDN


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        (":a/b", "a/b"),
        ("::c", "c"),
        ("sym", "sym"),
        ("-", "-"),
        ("-12", -12),
        ("+3N", 3),
        ("1.5e3", 1500.0),
        ("2.50M", 2.5),
        ("1/2", 0.5),
        ("##Inf", float("inf")),
        (r"\a", "a"),
        (r"\newline", "\n"),
        (r"\u0041", "A"),
        (r'"a\n\"\u00e9\\"', 'a\n"é\\'),
        ("[1, 2 ,,3]", [1, 2, 3]),
        ("(1 (2))", [1, [2]]),
        ('{:a 1, "b" [nil]}', {"a": 1, "b": [None]}),
        ("{[1 2] 3}", {(1, 2): 3}),
        ("#{1 2}", [1, 2]),
        ('#inst "2020"', "2020"),
        ("#jepsen.history.Op{:f :read}", {"f": "read"}),
        ("#:op{:f :read}", {"f": "read"}),
        ("#a #b 3", 3),
        ("[1 #_ 2 3]", [1, 3]),
        ("[#_ #_ 1 2 3]", [3]),
        ("[#_ [1 {:a 2}] 3 #_ 4]", [3]),
        ("[#t #_ 1 2]", [2]),
        ("^{:m 1} [2]", [2]),
        ("; nothing\n[1 ; one\n 2]", [1, 2]),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert forms(text) == [value]


def test_kinds_that_python_has_no_word_for() -> None:
    assert isinstance(forms(":a")[0], Keyword)
    assert isinstance(forms("#{1}")[0], EdnSet)


def test_a_string_may_go_over_lines() -> None:
    text = '["a\n b\n" 1]\n"c\n"'

    assert list(read_forms(text.splitlines(keepends=True))) == [(1, ["a\n b\n", 1]), (4, "c\n")]


def test_records_are_yielded_one_by_one_from_lines_or_a_vector() -> None:
    lines = ["{:a 1}\n", "{:a 2}\n"]
    vector = ["[{:a 1}\n", " {:a 2}]\n"]

    assert list(read_records(lines)) == list(read_records(vector)) == [(1, {"a": 1}), (2, {"a": 2})]
    assert list(read_records(["#_ [{:a 1}] {:a 2}"])) == [(1, {"a": 2})]


def test_records_come_before_the_end_is_read() -> None:
    def endless() -> Any:
        yield "["
        while True:
            yield "{:a [1]}\n"

    records = read_records(endless())

    assert [next(records)[1] for _ in range(3)] == [{"a": [1]}] * 3


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("{:a 1", 1, "never closed"),
        ("\n[1 2", 2, "never closed"),
        ('\n\n"abc', 3, "never closed"),
        ("]", 1, "closes nothing"),
        ("[1\n}", 2, "want ']'"),
        ("{:a}", 1, "key without a value"),
        ("[#_ ]", 1, "nothing behind it"),
        ("#tag", 1, "nothing behind it"),
        ("1x", 1, "not a number"),
        ("1/0", 1, "not a number"),
        ("9" * 500, 1, "500 digits"),
        (":", 1, "without a name"),
        (r'"\q"', 1, "escape"),
        (r"\toolong", 1, "not a character"),
        ('#"regex"', 1, "cannot read"),
    ],
)
def test_what_is_not_edn_says_where(text: str, line: int, message: str) -> None:
    with pytest.raises(EdnError, match=message) as caught:
        forms(text)

    assert caught.value.line == line


@pytest.mark.parametrize("opener", ["[", "{", "(", "#{", "#_ [", "#t ["])
def test_deep_nesting_is_refused(opener: str) -> None:
    with pytest.raises(EdnError, match="deeper than"):
        forms(opener * 100_000)


def test_nesting_within_the_limit() -> None:
    (value,) = forms("[" * DEPTH_MAX + "]" * DEPTH_MAX)
    depth = 0
    while value:
        (value,) = value
        depth += 1

    assert depth == DEPTH_MAX - 1


def test_many_tags_in_a_row_are_refused() -> None:
    with pytest.raises(EdnError, match="in a row"):
        forms("#a " * 100_000)


@given(st.text(alphabet='[]{}()#_:;"\\ \n,a1-/^.', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(EdnError):
        forms(text)


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab" \\\n;[', max_size=5),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


def to_edn(value: Any) -> str:
    match value:
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case _:
            return "[" + " ".join(map(to_edn, value)) + "]"


@given(st.lists(JSONISH, max_size=5))
def test_what_was_written_is_read_back(values: list[Any]) -> None:
    assert forms("\n".join(map(to_edn, values))) == values


# --------------------------------------------------------------------------- Jepsen


def test_a_jepsen_history(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "{:process :nemesis, :type :info, :f :start, :value nil, :time 1}\n"
        "{:type :invoke, :f :cas, :value [1 2], :process 3, :time 5, :index 1}\n"
        '{:type :info, :f :cas, :value [1 2], :process 3, :time 9, :error [:timeout "x"]}\n',
    )

    assert loaded.format == "edn"
    nemesis, invoke, info = loaded.history
    assert nemesis.process == "nemesis"
    assert type(nemesis.process) is str
    assert (invoke.process, invoke.type, invoke.f, invoke.value) == (3, "invoke", "cas", [1, 2])
    assert (invoke.index, invoke.time_ns, invoke.key) == (1, 5, None)
    assert info.error == "['timeout', 'x']"
    assert loaded.lines == (1, 2, 3)


def test_jepsen_rules_a_nil_read_is_legal_and_a_failed_op_did_not_happen(tmp_path: Path) -> None:
    loaded = load(tmp_path, "{:process 0 :type :invoke :f :read :value nil}")

    assert loaded.conventions.nil_read == "no-constraint"
    assert loaded.conventions.failed_cas == "did-not-happen"


def test_one_vector_with_records(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "; from a test\n[#jepsen.history.Op{:process 0, :type :invoke, :f :read, :value nil}\n"
        " #jepsen.history.Op{:process 0, :type :ok, :f :read, :value 4}]\n",
    )

    assert [op.value for op in loaded.history] == [None, 4]
    assert loaded.lines == (2, 3)


def test_independent_histories_have_their_key_in_the_value(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "{:process 0 :type :invoke :f :write :value [7 1]}\n"
        "{:process 1 :type :invoke :f :cas :value [8 [1 2]]}\n"
        "{:process 2 :type :invoke :f :read :value [7 nil]}\n"
        "{:process 2 :type :ok :f :read :value [7 1]}\n"
        "{:process 1 :type :info :f :cas :value :timed-out}\n",
    )

    assert [(op.key, op.value) for op in loaded.history] == [
        ("7", 1),
        ("8", [1, 2]),
        ("7", None),
        ("7", 1),
        (None, "timed-out"),
    ]


def test_pairs_that_are_no_keys_stay_values(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "{:process 0 :type :invoke :f :cas :value [7 1]}\n"
        "{:process 2 :type :invoke :f :read :value nil}\n",
    )

    assert [(op.key, op.value) for op in loaded.history] == [(None, [7, 1]), (None, None)]


def test_a_string_store_starts_empty(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        '{:process 0, :type :invoke, :f :get, :key "a", :value nil}\n'
        '{:process 0, :type :ok, :f :get, :key "a", :value ""}\n',
    )

    assert loaded.conventions.model == "kv-append"
    assert loaded.conventions.initial == ""
    assert loaded.history[0].key == "a"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{:process 0 :type :maybe :f :read}", ":type is 'maybe'"),
        ("{:process 1.5 :type :ok :f :read}", ":process is 1.5"),
        ("{:process 0 :type :ok :f 3}", ":f is 3"),
        ("{:process 0 :type :ok :f :read :time :now}", ":time is 'now'"),
        ("[1 2]", "want a map"),
        ("{:process 0 :type", "never closed"),
    ],
)
def test_a_bad_op_says_where(tmp_path: Path, line: str, message: str) -> None:
    good = "{:process 0 :type :invoke :f :read :value nil}\n"

    with pytest.raises(HistoryFormatError, match=rf"history:2: .*{message}"):
        load(tmp_path, good + line)


# --------------------------------------------------------------------------- Porcupine


@pytest.mark.parametrize("gap", ["\t", "   "])
def test_columns_of_tabs_or_blanks(tmp_path: Path, gap: str) -> None:
    lines = [("0", ":invoke", ":cas", "[3 0]"), ("0", ":fail", ":cas", "[3 0]")]
    text = "".join(f"INFO  jepsen.util - {gap.join(line)}\n" for line in lines)

    loaded = load(tmp_path, text)

    assert loaded.format == "porcupine"
    assert [(op.type, op.f, op.value) for op in loaded.history] == [
        ("invoke", "cas", [3, 0]),
        ("fail", "cas", [3, 0]),
    ]
    assert loaded.conventions.failed_cas == "observation"
    assert loaded.conventions.model == "cas-register"


def test_timeouts_in_the_value_column(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "INFO  other.logger - starting\n"
        "INFO  jepsen.util - 1 :invoke :write 4\n"
        "INFO  jepsen.util - 1 :info :write :timed-out\n"
        "INFO  jepsen.util - 2 :invoke :read nil\n"
        "INFO  jepsen.util - 2 :fail :read :timed-out\n"
        "INFO  jepsen.util - 3 :invoke :cas [1 2]\n"
        "INFO  jepsen.util - 3 :fail :cas :timed-out\n",
    )

    assert [op.type for op in loaded.history] == [
        "invoke",
        "info",
        "invoke",
        "fail",
        "invoke",
        "info",
    ]
    assert loaded.history[1].error == "timed-out"
    assert loaded.lines[0] == 2


@pytest.mark.parametrize("line", ["1 :maybe :write 4", "1 :ok :write [1 2 3]", "1 :ok"])
def test_an_event_that_cannot_be_read_is_not_skipped(tmp_path: Path, line: str) -> None:
    first = "INFO  jepsen.util - 1 :invoke :write 4\n"

    with pytest.raises(HistoryFormatError, match="history:2:"):
        load(tmp_path, f"{first}INFO  jepsen.util - {line}\n")


# --------------------------------------------------------------------------- JSON lines


READ = {"process": 0, "type": "invoke", "f": "read"}
SEEN = {"process": 0, "type": "ok", "f": "read", "value": 3}


def test_json_lines(tmp_path: Path) -> None:
    loaded = load(tmp_path, f"\ufeff{json.dumps(READ)}\n\n{json.dumps(SEEN)}\r\n")

    assert loaded.format == "jsonl"
    assert [op.value for op in loaded.history] == [None, 3]
    assert loaded.lines == (1, 3)


def test_a_whole_last_line_counts_without_its_newline(tmp_path: Path) -> None:
    text = f"{json.dumps(READ)}\n{json.dumps(SEEN)}"

    assert len(load(tmp_path, text).history) == 2
    assert check_file(tmp_path / "history").valid is Valid.INVALID


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    whole = f"{json.dumps(READ)}\n{json.dumps(SEEN)}"

    assert len(load(tmp_path, whole[:-5]).history) == 1


def test_a_torn_line_elsewhere_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HistoryFormatError, match="history:2: not an op"):
        load(tmp_path, f'{json.dumps(READ)}\n{{"process": 0, "ty\n{json.dumps(SEEN)}\n')


def test_an_array_of_objects_is_read_as_its_lines_would_be(tmp_path: Path) -> None:
    one = load(tmp_path, f"\n[{json.dumps(READ)},\n\n {json.dumps(SEEN)}]\n")
    assert one.format == "jsonl"
    assert [op.value for op in one.history] == [None, 3]
    assert one.lines == (2, 4)
    assert load(tmp_path, json.dumps([READ, SEEN], indent=2)).history == one.history


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"[{json.dumps(READ)},\n 7]", "history:2: not an op: want an object"),
        (f"[{json.dumps(READ)},\n {{]", "history:2: not an op"),
        (f"[{json.dumps(READ)},\n", "history:2: the array is never closed"),
    ],
)
def test_a_bad_element_of_an_array_says_where(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(HistoryFormatError, match=says):
        load(tmp_path, text)


# --------------------------------------------------------------------------- what it is of


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("{:process 0 :type :ok :value [[:append x 1] [:r y [2]]]}", "list-append"),
        ('{"process":0,"type":"ok","value":[["append","x",1],["r","y",[2]]]}', "list-append"),
        ('[{"process":0,"type":"ok","f":null,"value":[["r",1,null]]}]', "list-append"),
        (
            (
                "{:process 0 :type :ok :f :append :key k :value 1}\n"
                "{:process 0 :type :ok :f :read :key k :value [1]}"
            ),
            "list-append",
        ),
        ("{:process 0 :type :ok :f :send :value [[:send 1 [0 2]]]}", "kafka"),
        ("{:process 0 :type :ok :f :txn :value [[:send 1 [0 2]] [:poll {1 [[0 2]]}]]}", "kafka"),
        ("{:process 0 :type :ok :f :txn :value [[:w x 1] [:r y 2]]}", None),
        ("{:process 0 :type :ok :f :write :value 1}", None),
        ("{:process 0 :type :ok :f :append :key k :value 1}", "kv-append"),
        ("{:process 0 :type :ok :f :cas :value [1 2]}", None),
    ],
)
def test_what_a_history_is_of_is_told_by_its_ops(
    tmp_path: Path, text: str, model: str | None
) -> None:
    assert load(tmp_path, text).conventions.model == model


def test_an_op_without_f_is_a_transaction_only_when_it_has_micro_ops(tmp_path: Path) -> None:
    assert load(tmp_path, "{:process 0 :type :ok :value [[:r x [1]]]}").history[0].f == "txn"
    with pytest.raises(HistoryFormatError, match=":f is None, want a keyword"):
        load(tmp_path, "{:process 0 :type :ok :value [1 2]}")


def test_a_time_of_nil_is_no_time(tmp_path: Path) -> None:
    loaded = load(tmp_path, "{:process 0 :type :ok :f :read :value 1 :time nil}")
    assert loaded.history[0].time_ns == 0


# --------------------------------------------------------------------------- anything


@pytest.mark.parametrize("format_", ["auto", "jsonl", "edn", "porcupine"])
@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "; only a comment\n", "hello\n", "[]", "0,read,1\n", "\x00\x00", b"\xff\xfe{}"],
)
def test_a_file_without_ops_is_an_error_that_names_it(
    tmp_path: Path, text: str | bytes, format_: str
) -> None:
    with pytest.raises(HistoryFormatError, match=f"^{tmp_path}/history(:1)?: "):
        load(tmp_path, text, format_)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"process":0,"type":"invoke","f":"write","value":' + "[" * 200_000 + "\n",
        "{:process 0 :type :invoke :f :write :value " + "[" * 200_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000 + "\n",
    ],
)
def test_deep_nesting_in_any_format_is_a_clean_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(HistoryFormatError, match="history:1"):
        load(tmp_path, text)


@pytest.mark.parametrize(("depth", "readable"), [(100, True), (300, False)])
def test_values_may_be_nested_but_not_too_deep(tmp_path: Path, depth: int, readable: bool) -> None:
    value = "[" * depth + "]" * depth
    text = "".join(
        f'{{"process":0,"type":"{kind}","f":"write","value":{value}}}\n'
        for kind in ("invoke", "ok")
    )

    if readable:
        load(tmp_path, text)
        assert check_file(tmp_path / "history").valid is Valid.VALID
    else:
        with pytest.raises(HistoryFormatError, match="nested deeper"):
            load(tmp_path, text)


@pytest.mark.parametrize("format_", ["auto", "edn"])
def test_a_file_that_is_not_there(tmp_path: Path, format_: str) -> None:
    with pytest.raises(HistoryFormatError, match="No such file"):
        read_history(tmp_path / "nothing", format_)
    with pytest.raises(HistoryFormatError, match="directory"):
        read_history(tmp_path, format_)


def test_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'xml'.*jsonl"):
        read_history(tmp_path / "h", "xml")
