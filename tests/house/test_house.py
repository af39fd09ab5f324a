"""The shape of the house: what ``tools/house.py`` finds in trees, and its picture of this one."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.places import ROOT
from tools import house
from tools.picture import picture
from tools.source import ROOTS, Tree, circles, graph, reduced


def tree(folder: Path, **files: str) -> Tree:
    """A tree of files; ``__`` in a name stands for ``/``, and every folder is a package."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        for above in path.relative_to(folder).parents:
            if above != Path():
                (folder / above / "__init__.py").touch()
    return Tree(folder)


def keys(found: Tree) -> set[str]:
    return {each.key for each in house.broken(found)}


def test_the_picture_is_up_to_date(rewrite: bool) -> None:
    made = picture(Tree(ROOT))
    path = ROOT / house.PICTURE
    if rewrite:
        path.write_text(made, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == made, "run pytest tests/house --rewrite"


def test_the_picture_shows_every_folder_and_is_shown() -> None:
    svg = ET.fromstring((ROOT / house.PICTURE).read_text(encoding="utf-8"))
    shown = {part.strip(" ,/") for text in svg.itertext() for part in text.split(",")}
    folders = {
        path.parent.name
        for root in ROOTS
        for path in (*(ROOT / root).glob("__init__.py"), *(ROOT / root).glob("*/__init__.py"))
    }
    assert folders <= shown
    assert f"]({Path(house.PICTURE).name})" in (ROOT / "docs/architecture.md").read_text()


def test_a_good_tree_has_nothing_wrong(tmp_path: Path) -> None:
    good = tree(
        tmp_path,
        node__a="import os\n",
        harness__x__b="from node import a\nfrom node.a import os\n",
        krucible__c="'''Not harness.x.b'''\nfrom harness.x import b\n",
    )
    assert keys(good) == set()
    assert [(each.source, each.target) for each in good.imports] == [
        ("krucible.c", "harness.x.b"),
        ("harness.x.b", "node.a"),
        ("harness.x.b", "node.a"),
    ]


@pytest.mark.parametrize(
    ("files", "key"),
    [
        ({"node__a": "import harness.b", "harness__b": ""}, "up: node.a harness.b"),
        ({"checkers__a": "import nemesis.b", "nemesis__b": ""}, "up: checkers.a nemesis.b"),
        (
            {"node__a": "if x:\n    def f():\n        from harness import b", "harness__b": ""},
            "up: node.a harness.b",
        ),
        ({"harness__a": "f('reports.b')", "reports__b": ""}, "up: harness.a reports.b"),
        ({"harness__a": "f('reports.b:main')", "reports__b": ""}, "up: harness.a reports.b"),
        ({"harness__a": "f('from reports.b import c')"}, "name: harness.a reports.b"),
        ({"harness__a": "f('harness.b')", "harness__b": ""}, "name: harness.a harness.b"),
        ({"harness__a": "['-m', 'node']", "node__b": ""}, "name: harness.a node"),
        ({"harness__a": "run(x, '-m', 'node')", "node__b": ""}, "name: harness.a node"),
        ({"harness__a": "f(f'harness.b.{x}')", "harness__b__c": ""}, "name: harness.a harness.b"),
        ({"harness__a": "importlib.import_module(x)"}, "load: harness.a"),
        ({"node__a": "import node.b", "node__b": "import node.a"}, "circle: node.a node.b"),
        (
            {
                "node__a": "if TYPE_CHECKING:\n    from node.b import B",
                "node__b": "def f():\n    from node import a",
            },
            "circle: node.a node.b",
        ),
        (
            {
                "harness__a__x": "import harness.b.x",
                "harness__b__x": "",
                "harness__b__y": "import harness.a.y",
                "harness__a__y": "",
            },
            "folders: harness.a harness.b",
        ),
        (
            {
                "node__a": "class A: pass\nclass B(A): pass",
                "node__b": "from node.a import B as P\nclass C(P): pass",
            },
            "chain: node.a.B",
        ),
        ({"nemesis__helper": "def f(): ..."}, "beside: nemesis/helper.py"),
        ({f"node__disk_{x}": "" for x in "abc"}, "family: node/disk"),
        ({"node__disk": "", "node__disk_a": "", "node__disk_b": ""}, "family: node/disk"),
    ],
)
def test_what_breaks_a_rule_is_found(tmp_path: Path, files: dict[str, str], key: str) -> None:
    assert key in keys(tree(tmp_path, **files))


@pytest.mark.parametrize(
    "text",
    [
        "class A(Exception): pass\nclass B(A): pass\nclass C(B): pass",
        "class A(Protocol): pass\nclass B(A): pass\nclass C(B): pass",
        "class A(enum.Enum): pass\nclass B(A): pass\nclass C(B): pass",
        "class A(asyncio.Transport): pass\nclass B(A): pass",
    ],
)
def test_exceptions_protocols_and_classes_of_others_are_no_links(tmp_path: Path, text: str) -> None:
    assert keys(tree(tmp_path, node__a=text)) == set()


def test_plug_ins_may_share_a_prefix_for_their_names_are_theirs(tmp_path: Path) -> None:
    text = '@nemeses.register("disk-x")\nclass X: pass\n'
    assert keys(tree(tmp_path, **{f"nemesis__disk_{x}": text for x in "abc"})) == set()


def test_a_folder_that_is_no_package_is_told(tmp_path: Path) -> None:
    made = tree(tmp_path, harness__store__a="")
    assert keys(made) == set()
    (tmp_path / "harness/store/__init__.py").unlink()
    assert keys(Tree(tmp_path)) == {"folder: harness/store"}


def test_what_is_known_is_not_told_until_it_is_no_longer_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = tree(tmp_path, node__a="import harness.b", harness__b="")
    monkeypatch.setattr(house, "KNOWN", {"up: node.a harness.b": "why"})
    assert house.check(up) == []
    monkeypatch.setattr(house, "KNOWN", {"up: node.a harness.b": "why", "up: gone": "why"})
    assert house.check(up) == ["tools/house.py: 'up: gone' is no longer so: take it out of KNOWN"]


def test_the_command_tells_what_is_wrong_and_exits_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(house, "KNOWN", {})
    tree(tmp_path, node__a="\nimport harness.b", harness__b="")
    assert house.main(["check", "--root", str(tmp_path)]) == 1
    assert capsys.readouterr().out == (
        "node/a.py:2: imports harness.b, which stands above it\n1 wrong\n"
    )
    assert house.main(["counts", "--root", str(tmp_path)]) == 0
    told = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert told["upward arrows, static"].strip() == "1"
    assert told["lines of the product"].strip() == "1"


def test_circles_are_found_whatever_the_order() -> None:
    arrows = graph("abcdef", ["ab", "bc", "ca", "cd", "de", "ed", "ef"])  # type: ignore[list-item]
    assert circles(arrows) == [("a", "b", "c"), ("d", "e")]


def test_arrows_that_a_longer_way_replaces_are_left_out() -> None:
    pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "c"), ("a", "d")]
    assert reduced(graph("abcd", pairs)) == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"c"}}
