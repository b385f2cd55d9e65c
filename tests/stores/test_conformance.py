"""Every driver passes the one exam: a subclass a suite, and nothing else."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from turnchain.stores import memory
from turnchain.stores.conformance.accepting import AcceptingSuite
from turnchain.stores.conformance.admitting import AdmittingSuite
from turnchain.stores.conformance.cancelling import CancellingSuite
from turnchain.stores.conformance.checkpoints import CheckpointsSuite
from turnchain.stores.conformance.claiming import ClaimingSuite
from turnchain.stores.conformance.exam import Stores
from turnchain.stores.conformance.inspecting import InspectingSuite
from turnchain.stores.conformance.keeping import KeepingSuite
from turnchain.stores.conformance.listing import ListingSuite
from turnchain.stores.conformance.owning import OwningSuite
from turnchain.stores.conformance.reading import ReadingSuite
from turnchain.stores.conformance.settling import SettlingSuite
from turnchain.stores.conformance.snapshots import SnapshotsSuite
from turnchain.stores.conformance.steps import StepsSuite
from turnchain.stores.conformance.sweeping import SweepingSuite
from turnchain.stores.conformance.units import UnitsSuite


class OnMemory:
    @pytest.fixture
    def stores(self) -> Stores:
        return memory.connect()


class OnPostgres:
    @pytest.fixture
    def stores(self, database_url: str) -> Generator[Stores]:
        from turnchain.stores import postgres

        stores = postgres.connect(database_url)
        yield stores
        stores.close()


class TestMemoryAccepting(OnMemory, AcceptingSuite):
    pass


class TestMemoryAdmitting(OnMemory, AdmittingSuite):
    pass


class TestMemoryClaiming(OnMemory, ClaimingSuite):
    pass


class TestMemoryOwning(OnMemory, OwningSuite):
    pass


class TestMemoryKeeping(OnMemory, KeepingSuite):
    pass


class TestMemoryUnits(OnMemory, UnitsSuite):
    pass


class TestMemorySettling(OnMemory, SettlingSuite):
    pass


class TestMemorySweeping(OnMemory, SweepingSuite):
    pass


class TestMemorySteps(OnMemory, StepsSuite):
    pass


class TestMemoryCancelling(OnMemory, CancellingSuite):
    pass


class TestMemoryReading(OnMemory, ReadingSuite):
    pass


class TestMemoryListing(OnMemory, ListingSuite):
    pass


class TestMemoryInspecting(OnMemory, InspectingSuite):
    pass


class TestMemoryCheckpoints(OnMemory, CheckpointsSuite):
    pass


class TestMemorySnapshots(OnMemory, SnapshotsSuite):
    pass


class TestPostgresAccepting(OnPostgres, AcceptingSuite):
    pass


class TestPostgresAdmitting(OnPostgres, AdmittingSuite):
    pass


class TestPostgresClaiming(OnPostgres, ClaimingSuite):
    pass


class TestPostgresOwning(OnPostgres, OwningSuite):
    pass


class TestPostgresKeeping(OnPostgres, KeepingSuite):
    pass


class TestPostgresUnits(OnPostgres, UnitsSuite):
    pass


class TestPostgresSettling(OnPostgres, SettlingSuite):
    pass


class TestPostgresSweeping(OnPostgres, SweepingSuite):
    pass


class TestPostgresSteps(OnPostgres, StepsSuite):
    pass


class TestPostgresCancelling(OnPostgres, CancellingSuite):
    pass


class TestPostgresReading(OnPostgres, ReadingSuite):
    pass


class TestPostgresListing(OnPostgres, ListingSuite):
    pass


class TestPostgresInspecting(OnPostgres, InspectingSuite):
    pass


class TestPostgresCheckpoints(OnPostgres, CheckpointsSuite):
    pass


class TestPostgresSnapshots(OnPostgres, SnapshotsSuite):
    pass
