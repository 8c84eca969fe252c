"""Gives tests to the processes of xdist, so that a process that dies fails its test and the rest still runs."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

_AHEAD = 2  # a process starts a test once it knows the next one, or that there is none
# Tests of a scope share an engine or a server: one process runs them, one after the other. Two Spark sessions share the
# tests of Spark evenly.
_SCOPES = {
    "tests/spark/datasource/": "spark 2",
    "tests/spark/read/": "spark 2",
    "tests/spark/rows/": "spark 2",
    "tests/spark/": "spark 1",
    "tests/ray/": "ray",
    "tests/interop/": "peers",
}


def scope_of(nodeid: str) -> str | None:
    """Return the scope of a test that shares an engine or the peers with others."""
    return next((scope for folder, scope in _SCOPES.items() if nodeid.startswith(folder)), None)


class ScopeScheduler(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Gives all tests of a scope to one process, and the others one by one.

    xdist's own scheduler has two gaps. It runs the test that killed a process again, which kills the next one. And it
    gives a process that replaces another one unit of work and no more: where that is a single test, the process waits
    for ever for the next one.
    """

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid) or nodeid

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a process; return the test that it was running, which counts as done."""
        workload = self.assigned_work.pop(node)
        left = [(unit, nodeid) for unit in workload.values() for nodeid, done in unit.items() if not done]
        if not left:
            return None
        unit, crashed = left[0]
        unit[crashed] = True
        self.workqueue.update({scope: unit for scope, unit in workload.items() if not all(unit.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return str(crashed)

    def _reschedule(self, node: WorkerController) -> None:
        while not node.shutting_down and self.workqueue and self._pending_of(self.assigned_work[node]) <= _AHEAD:
            self._assign_work_unit(node)
        if not self.workqueue and not node.shutting_down:
            node.shutdown()
