"""Contracts of every registered plug-in; a new one is under test before its author begins."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from harness.contracts.abilities import Kill, LeavesEvents, Pause, Registers, Roles, Topics
from harness.contracts.checker import RunData
from harness.contracts.environment import Address, Environment, Net
from harness.contracts.hosts import (
    AsksJvms,
    ClockOrders,
    Clocks,
    DiskOrders,
    Disks,
    MountsDisks,
    Movable,
    Packets,
    Power,
    PowerOrders,
    Repeats,
)
from harness.contracts.model import Judge
from harness.contracts.nemesis import Cluster, Fault
from harness.contracts.system import System
from harness.contracts.workload import Workload
from harness.errors import EnvError
from harness.generators.generator import Context, Draft, Generator
from harness.healing.journal import Journal
from harness.history.ops import History, Op
from harness.kafka.route import SpeaksKafka
from harness.registry import (
    checkers,
    environments,
    models,
    mutants_of,
    nemeses,
    systems,
    workloads,
)
from harness.run.guard import GuardedNemesis, check_completion, check_result
from harness.spec import RunSpec
from harness.store.folder import RunDir
from harness.systems.atom import AtomSystem
from harness.verdict import Valid
from krucible.commands.listing import KINDS, rows
from node import mutants
from node.driver.parts import NodeParts
from tests.support.simulated.virtual_time import run_virtual

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
SPEC = RunSpec(seed=11, system="atom", voters=3, observers=2, concurrency=10)
LEAVES = frozenset(("events", "records", "output", "images"))
OPS_TRIED = 60
STEPS_MAX = 10_000
EVERY = [(kind, name) for kind, registry in KINDS.items() for name in registry.names()]


# --------------------------------------------------------------------------- all kinds


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_names_and_descriptions_are_fit_for_a_list(kind: str, name: str) -> None:
    assert NAME.fullmatch(name), f"{kind}: want words of a-z and 0-9 joined by -"
    description = KINDS[kind].describe(name)
    assert description[0].isupper()
    assert description.endswith("."), "the first line of the docstring is one sentence"
    assert len(description) <= 100
    json.dumps(rows(kind))


# --------------------------------------------------------------------------- nemeses


class _Bare:
    """A system without any ability."""

    name = "bare"
    nodes: tuple[str, ...] = ("n1", "n2", "n3", "n4", "n5")
    voters: tuple[str, ...] = ("n1", "n2", "n3")
    observers: tuple[str, ...] = ("n4", "n5")


class _NoNet:
    """An environment that can do nothing."""

    name = "nowhere"
    net = None

    def address(self, node: str) -> Address:
        raise EnvError(f"{node} has no address in nowhere")


BARE = Cluster(cast("System", _Bare()), cast("Environment", _NoNet()))


@pytest.fixture(params=nemeses.names())
def nemesis(request: pytest.FixtureRequest) -> GuardedNemesis:
    name = str(request.param)
    return GuardedNemesis(name, nemeses.get(name)())


def test_a_nemesis_has_a_family(nemesis: GuardedNemesis) -> None:
    assert NAME.fullmatch(nemesis.family)
    assert nemeses.get(nemesis.name).family == nemesis.family  # the list shows the class's


def test_params_depend_on_the_seed_alone(nemesis: GuardedNemesis) -> None:
    again = nemeses.get(nemesis.name)()
    drawn = [nemesis.params(Random(seed)) for seed in range(50)]
    assert drawn == [again.params(Random(seed)) for seed in range(50)]
    assert json.loads(json.dumps(drawn)) == [dict(params) for params in drawn]
    alike = len({json.dumps(params) for params in drawn}) == 1
    assert alike == (nemesis.name == "partition-isolate-leader"), "only that one has no choice"


def test_params_name_roles_never_nodes(nemesis: GuardedNemesis) -> None:
    for seed in range(50):
        assert not re.search(r'"n\d+"', json.dumps(nemesis.params(Random(seed))))


def test_a_nemesis_that_is_not_available_says_so_and_skips(nemesis: GuardedNemesis) -> None:
    reason = nemesis.available(BARE)
    if reason is None:
        pytest.skip("is always available")
    assert "bare" in reason or "nowhere" in reason
    fault = Fault(0, nemesis.name, 0, 1, nemesis.params(Random(1)))
    injection = run_virtual(nemesis.inject(fault, BARE))
    assert (injection.outcome, injection.targets) == ("skipped", ())


# --------------------------------------------------------------------------- checkers


@pytest.mark.parametrize("name", checkers.names())
def test_a_checker_of_an_empty_run_answers_and_keeps_its_contract(name: str) -> None:
    for spec in (SPEC, replace(SPEC, nemeses=("kill",))):
        data = RunData(spec, History(()), voters=("n1",), observers=("n2",))
        result = checkers.get(name)(data)
        check_result(name, result)
        assert result.valid is not Valid.INVALID
        assert result.checker == name
        json.dumps(result.to_json())
    assert checkers.needs(name) <= LEAVES


@pytest.mark.parametrize("name", checkers.names())
def test_a_checker_takes_what_it_does_not_know(name: str) -> None:
    ops = [
        Op(0, 0, 0, "invoke", "fly", {"to": "moon"}, key="k"),
        Op(1, 1, "nemesis", "info", "inject", {"id": 0}),
        Op(2, 2, 0, "info", "fly", error="lost"),
        Op(3, 3, 1, "invoke", "read", None, key="k"),
    ]
    events: dict[str, tuple[dict[str, Any], ...]] = {"n1": ({"type": "flight"}, {})}
    data = RunData(SPEC, History(ops), events=events, output={"n1": ("", "\x00")}, voters=("n1",))
    first, second = checkers.get(name)(data), checkers.get(name)(data)
    check_result(name, first)
    assert first.valid is not Valid.INVALID
    assert first.to_json() == second.to_json()  # pure: the same run, the same answer


# --------------------------------------------------------------------------- models


@pytest.mark.parametrize("name", models.names())
def test_a_model_is_made_without_arguments_and_says_what_it_knows(name: str) -> None:
    model = models.get(name)()
    assert model.fs
    assert all(isinstance(f, str) and f for f in model.fs)
    if isinstance(model, Judge) and not hasattr(model, "start"):
        return  # it judges histories in a way of its own, without states
    assert model.start(model.initial) == models.get(name)().start(model.initial)
    hash(model.start(model.initial))


# --------------------------------------------------------------------------- workloads


@pytest.fixture(params=workloads.names())
def workload(request: pytest.FixtureRequest) -> Workload:
    made: Workload = workloads.get(str(request.param))(SPEC)
    return made


def test_a_workload_names_checkers_and_a_model_that_there_are(workload: Workload) -> None:
    assert workload.checkers
    for name in workload.checkers:
        checkers.get(name)
    if workload.model is not None:
        models.get(workload.model)


def drafts(generator: Generator, seed: int) -> Iterator[Op]:
    """The first ops of a generator when every op is ok at once, as invocations."""
    threads = tuple(range(SPEC.concurrency))
    generator = generator.seeded(seed)
    free = list(threads)
    count = 0
    for step in range(STEPS_MAX):
        ctx = Context(step * 1_000_000, tuple(free), threads, SPEC.concurrency)
        draft, generator = generator.op(ctx)
        if draft is None or count == OPS_TRIED:
            return
        if not isinstance(draft, Draft):
            continue
        count += 1
        assert draft.thread in free
        op = Op(2 * count, ctx.time_ns, draft.thread, "invoke", draft.f, draft.value, draft.key)
        yield op
        free.remove(draft.thread)
        busy = Context(ctx.time_ns, tuple(free), threads, SPEC.concurrency)
        generator = generator.update(busy, op)
        free.append(draft.thread)
        done = Context(ctx.time_ns, tuple(free), threads, SPEC.concurrency)
        generator = generator.update(done, op.with_(type="ok", index=op.index + 1))


@pytest.mark.parametrize("name", workloads.names())
def test_ops_depend_on_the_seed_alone(name: str) -> None:
    def play(seed: int) -> tuple[list[Op], list[Op]]:
        # made anew: what the final phase does may depend on what the main phase did
        made: Workload = workloads.get(name)(SPEC)
        main = list(drafts(made.generator, seed))
        final = made.final_generator
        return main, [] if final is None else list(drafts(final, seed))

    main, final = play(1)
    assert (main, final) == play(1)
    assert main != play(2)[0]
    assert len(main) == OPS_TRIED  # it goes on for as long as the run does
    assert final or workloads.get(name)(SPEC).final_generator is None
    for op in (*main, *final):
        json.dumps(op.to_json())


def test_clients_do_every_op_of_their_generators(workload: Workload) -> None:
    async def do_all() -> None:
        system = AtomSystem(replace(SPEC, settings={"atom.latency-ms": "0"}), None, None)
        try:
            prototype = workload.client(system)
        except EnvError as error:  # it needs Kafka's protocol: simulations do its ops
            pytest.skip(str(error))
        clients = [await prototype.open(node) for node in system.nodes]
        assert prototype not in clients
        for generator in filter(None, (workload.generator, workload.final_generator)):
            for op in drafts(generator, 1):
                assert isinstance(op.process, int)
                client = clients[op.process % len(clients)]
                completion = await client.invoke(op)
                check_completion(op, completion, client=client)
                assert completion.type in ("ok", "fail")  # nothing is lost in memory
        for client in clients:
            await client.close()

    run_virtual(do_all())


def test_a_workload_says_what_a_system_lacks(workload: Workload) -> None:
    with pytest.raises(EnvError, match="'bare'"):
        workload.client(cast("System", _Bare()))


# --------------------------------------------------------------------------- systems, environments


@pytest.fixture(params=systems.names())
def system_class(request: pytest.FixtureRequest) -> Any:
    return systems.get(str(request.param))


class _Paper:
    """An environment that exists on paper only."""

    name = "paper"


def test_making_a_system_starts_nothing_and_names_nodes(system_class: Any, tmp_path: Path) -> None:
    system: System = system_class(SPEC, cast("Environment", _Paper()), RunDir(tmp_path))
    assert system.nodes == ("n1", "n2", "n3", "n4", "n5")
    assert system.voters + system.observers == system.nodes
    assert len(system.voters) == SPEC.voters
    assert systems.get(system.name) is system_class
    assert not list(tmp_path.iterdir())
    for method in ("setup", "teardown", "await_recovery"):
        assert inspect.iscoroutinefunction(getattr(system, method))
    assert isinstance(system, Registers | Topics | SpeaksKafka), "nothing could be done with it"
    assert isinstance(system, Kill) == isinstance(system, Pause) == isinstance(system, Roles)


def test_what_a_system_leaves_is_known(system_class: Any) -> None:
    leaves = systems.traits(system_class.name).leaves
    assert leaves <= LEAVES
    assert issubclass(system_class, LeavesEvents) == ("events" in leaves)


def test_settings_are_checked_before_a_run(system_class: Any) -> None:
    check_settings = systems.traits(system_class.name).check_settings
    check_settings({})
    with pytest.raises(Exception, match="colour") as raised:
        check_settings({"colour": "red"})
    assert getattr(raised.value, "exit_code", None) == 254


@pytest.mark.parametrize("name", environments.names())
def test_an_environment_has_what_systems_ask_for(name: str) -> None:
    environment = environments.get(name)
    wanted = {n for n in vars(Environment) if not n.startswith("_")}
    assert {n for n in wanted if not hasattr(environment, n)} <= {"name", "net"}
    for method in ("setup", "start", "signal", "teardown"):
        assert inspect.iscoroutinefunction(getattr(environment, method))
    assert {"cut", "heal", "cuts", "probe", "stats"} <= set(vars(Net))


@pytest.mark.parametrize("name", environments.names())
def test_an_environment_can_what_its_traits_say_and_no_more(name: str, tmp_path: Path) -> None:
    journal = Journal.open("paper", folder=tmp_path)
    environment = environments.get(name)(tmp_path / "run", journal)
    journal.close()
    traits = environments.traits(name)
    of_hosts = (Disks, Power, Clocks, Movable, MountsDisks, AsksJvms)
    assert {each for each in of_hosts if isinstance(environment, each)} == traits.hosts
    if Disks in traits.hosts:
        assert isinstance(environment.disks, DiskOrders)
        assert isinstance(environment.power, PowerOrders)
    if Clocks in traits.hosts:
        assert isinstance(environment.clocks, ClockOrders)
    links = {each for each in (Packets, Repeats) if isinstance(environment.net, each)}
    assert {each for each in links if traits.why_not(each) is None} == traits.links


# --------------------------------------------------------------------------- mutants


def test_mutants_apply_on_top_of_each_other() -> None:
    parts = NodeParts()
    for mutant in mutants.load().values():
        parts = mutant.apply(parts)
    assert parts != NodeParts()


def test_mutants_of_a_system_are_objects_with_names() -> None:
    found: list[Mapping[str, str]] = [m for name in systems.names() for m in mutants_of(name)]
    assert {m["name"] for m in found} == set(mutants.load())
    assert all({"name", "description", "breaks", "source"} <= set(m) for m in found)
