"""Which orchestrators a process serves, and where it finds them."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from tests.orchestrator_core.builders import counter
from turnchain.orchestrator_core.errors import SettingsError, UnknownOrchestratorError
from turnchain.orchestrator_core.registry import Registry, load_definitions
from turnchain.orchestrator_core.signature import signature_of


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An author's module with two orchestrators and something else."""
    module = ModuleType("shop_of_this_test")
    module.__dict__.update(support=counter(name="support"), sales=counter(name="sales"), colour=1)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_a_registry_finds_by_name() -> None:
    support = counter(name="support")
    registry = Registry([support, counter(name="sales")])

    assert registry.find("support") is support
    assert registry.get("support") is support
    assert registry.names == ["sales", "support"]
    assert registry.signatures["support"] == signature_of(support)


def test_an_unknown_name_comes_with_the_known_ones() -> None:
    registry = Registry([counter(name="support"), counter(name="sales")])

    assert registry.find("suport") is None
    with pytest.raises(UnknownOrchestratorError, match=r"\['sales', 'support'\]") as refused:
        registry.get("suport")

    assert refused.value.context["value"] == "suport"


def test_two_definitions_of_one_name_are_refused() -> None:
    with pytest.raises(SettingsError, match="'counter'"):
        Registry([counter(), counter()])


def test_the_same_definition_twice_is_one() -> None:
    support = counter(name="support")

    assert Registry([support, support]).names == ["support"]


def test_a_path_names_one_definition_or_all_of_a_module(shop: ModuleType) -> None:
    assert load_definitions(["shop_of_this_test:support"]) == [shop.support]
    assert load_definitions(["shop_of_this_test"]) == [shop.support, shop.sales]


def test_a_definition_that_several_paths_name_comes_once(shop: ModuleType) -> None:
    paths = ["shop_of_this_test:sales", " shop_of_this_test "]

    assert load_definitions(paths) == [shop.sales, shop.support]


@pytest.mark.parametrize(
    "path",
    [
        "no_such_module_here:support",
        "shop_of_this_test:colour",
        "shop_of_this_test:missing",
        "shop_of_this_test.support",
        ":support",
        "",
        ".relative:support",
    ],
)
@pytest.mark.usefixtures("shop")
def test_a_path_that_leads_nowhere_is_named(path: str) -> None:
    with pytest.raises(SettingsError, match="TURNCHAIN_ORCHESTRATORS"):
        load_definitions([path])
