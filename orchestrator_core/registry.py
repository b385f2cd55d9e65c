"""Names to definitions. A value that a process is given, never a global that importing fills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points

from turnchain.orchestrator_core.definition import Orchestrator
from turnchain.orchestrator_core.errors import SettingsError, UnknownOrchestratorError
from turnchain.orchestrator_core.signature import signature_of

ENTRY_POINT_GROUP = "turnchain.orchestrators"


class Registry:
    """The orchestrators one process serves.

    Raises:
        SettingsError: two definitions have one name.
    """

    def __init__(self, definitions: Iterable[Orchestrator]) -> None:
        self._definitions: dict[str, Orchestrator] = {}
        for definition in definitions:
            known = self._definitions.setdefault(definition.name, definition)
            if known is not definition:
                raise SettingsError(
                    f"two orchestrators are named {definition.name!r}: rename one of them"
                )
        self._signatures = {
            name: signature_of(definition) for name, definition in self._definitions.items()
        }

    @property
    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._definitions)

    @property
    def signatures(self) -> Mapping[str, str]:
        """Name to signature."""
        return self._signatures

    def find(self, name: str) -> Orchestrator | None:
        """The definition, or None where this process does not serve it."""
        return self._definitions.get(name)

    def get(self, name: str) -> Orchestrator:
        """The definition.

        Raises:
            UnknownOrchestratorError: lists the known names.
        """
        found = self.find(name)
        if found is None:
            raise unknown_orchestrator(name, self.names)
        return found


def unknown_orchestrator(name: str, known: Iterable[str]) -> UnknownOrchestratorError:
    """The error for a name that nobody serves; `known` are the names it could have been."""
    names = sorted(known)
    return UnknownOrchestratorError(
        f"orchestrator_name = {name!r} is not known; known are {names}: check the spelling, or add its module to "
        "TURNCHAIN_ORCHESTRATORS of the workers",
        {"field": "orchestrator_name", "value": name, "known": names},
    )


def load_definitions(paths: Iterable[str]) -> list[Orchestrator]:
    """Import definitions: `package.module:attribute`, or `package.module` for all `Orchestrator` values in it.

    Entry points of the group `turnchain.orchestrators` of installed packages come on top.

    Raises:
        SettingsError: the path cannot be imported or holds no orchestrator.
    """
    every = [*paths, *(point.value for point in entry_points(group=ENTRY_POINT_GROUP))]
    unique: dict[int, Orchestrator] = {}
    for path in every:
        for definition in _at(path.strip()):
            unique[id(definition)] = definition
    return list(unique.values())


def _at(path: str) -> list[Orchestrator]:
    module_name, _, attribute = path.partition(":")
    try:
        module = import_module(module_name)
    except (ImportError, TypeError, ValueError) as error:  # the latter two: no name, a relative one
        raise SettingsError(
            f"TURNCHAIN_ORCHESTRATORS names {path!r}, and importing {module_name!r} failed with {error}: give "
            "package.module:attribute and put the package on the workers' path"
        ) from error
    values = [getattr(module, attribute, None)] if attribute else list(vars(module).values())
    found = [value for value in values if isinstance(value, Orchestrator)]
    if not found:
        raise SettingsError(
            f"TURNCHAIN_ORCHESTRATORS names {path!r}, and there is no Orchestrator there"
        )
    return found
