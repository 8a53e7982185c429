"""The logs of two replicas are collected through the API server while both of them write."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from egress.review.replica_log_download import ARCHIVE_COMMAND
from tests.cli.command import Outcome, egress
from tests.cluster.replica_exec_server import ReplicaExecServer, write_kubeconfig
from tests.cluster.replicated_gateway import NAMES, LoadedPod, ReplicatedGateway, Service


async def test_two_live_replicas_are_one_log(tmp_path: Path) -> None:
    place = tmp_path / "operator"
    place.mkdir()

    async def run(*words: str) -> Outcome:
        env = {"KUBECONFIG": str(place / "config")}
        done = await asyncio.to_thread(egress, *words, cwd=place, env=env)
        assert done.status == 0, done.err
        return done

    async def collected() -> list[str]:
        await run("log", "collect", "both", "--kubernetes", "-n", "agents", "--key", "audit.key")
        await run("log", "verify", "--dir", "both", "--key", "audit.key")
        found = await run("log", "query", "--dir", "both", "--json", "--limit", "100000")
        lines = [json.loads(line) for line in found.out.splitlines()]
        assert {line["replica"] for line in lines if "replica" in line} == set(NAMES)
        return [line["path"] for line in lines if str(line.get("path", "")).startswith("/work/")]

    with ReplicatedGateway(tmp_path, "10s") as gateway:
        server = ReplicaExecServer(gateway)
        with server.serving() as port:
            write_kubeconfig(place / "config", port)
            for number in (0, 1):
                await gateway.become_ready(number)
            pods = [LoadedPod(Service(gateway), f"job{number}", replica=number) for number in (0, 1)]
            for each in pods:
                await gateway.lab.becomes(each.address, 200)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(each.work()) for each in pods]
                await asyncio.gather(*(each.works_on(10) for each in pods))
                first = [path for each in pods for path in each.answered]
                # The collected lines are as old as the last write of each replica.
                async with asyncio.timeout(60):
                    while not set(first) <= set(earlier := await collected()):
                        pass
                await asyncio.gather(*(each.works_on(10) for each in pods))
                later = await collected()
                for task in tasks:
                    task.cancel()
    assert set(earlier) < set(later)
    assert len(later) == len(set(later)), "each request once"
    assert set(server.commands) == {(name, *ARCHIVE_COMMAND) for name in NAMES}
    assert (place / "audit.key").stat().st_mode & 0o777 == 0o600
