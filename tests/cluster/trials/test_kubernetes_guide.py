"""The guide to Kubernetes, typed word for word on a real cluster, up to the page that shows who did what.

Beside the guide only three things are done: an agent-sandbox controller runs, pushed images go to the node,
and the gateway trusts the authority of the stand-in for the internet, which plays GitHub.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from scripts import chromium
from tests.cluster import git_backend
from tests.cluster.agent_sandbox.running_controller import running_controller
from tests.cluster.guide_page import Typist, steps
from tests.cluster.installed_chart import InstalledChart
from tests.cluster.running_cluster import RunningCluster
from tests.cluster.stand_ins import Internet, policy_engine

pytestmark = [pytest.mark.timeout(1800), pytest.mark.system("git", "git")]

NAMESPACE = "agents"
REPOSITORY = "acme/widgets"
README = "These are widgets.\n"
LINK = re.compile(r"http://127\.0\.0\.1:\d+/\S+")


@pytest.fixture
def guided(cluster: RunningCluster, canary: Internet) -> Iterator[InstalledChart]:
    """The namespace of the guide, empty, in a cluster where policies and agent-sandbox's objects work."""
    found = InstalledChart(cluster, NAMESPACE, f"ghp_{secrets.token_hex(18)}")
    found.remove()
    with policy_engine(cluster), running_controller(cluster, NAMESPACE):
        try:
            yield found
        finally:
            found.remove()


def test_the_guide_alone_leads_from_an_empty_cluster_to_a_refused_push_on_the_page(
    cluster: RunningCluster, canary: Internet, guided: InstalledChart, tmp_path: Path
) -> None:
    git_backend.make_repository(canary.repositories, REPOSITORY, README)
    commit = git_backend.head_of(canary.repositories, REPOSITORY)
    typist = Typist(cluster, tmp_path)
    (tmp_path / "token").write_text(guided.token, "utf-8")
    mark, printed, link = canary.mark(), "", ""
    for step in steps("Install", "Who did what"):
        if step.file:
            (tmp_path / step.file).write_text(step.text, "utf-8")
            continue
        text = prepared(step.text, guided, canary, tmp_path)
        ui = text.partition("egress ui")[2]
        done = typist.type(text.replace(f"egress ui{ui}", ""))
        is_push = "push origin" in text
        assert bool(done.returncode) is is_push, f"{text}\n{done.stdout}"
        printed += done.stdout
        if is_push:
            assert "403" in done.stdout
        if ui:
            link = ui.strip()
    assert "Phase:          Succeeded" in printed, "helm test"
    assert '"code": "rule.denied"' in printed, "the gist"
    assert f"{commit[:7]} first" in printed, "the clone"
    assert guided.token not in printed
    assert git_backend.head_of(canary.repositories, REPOSITORY) == commit
    heads = canary.heads(mark)
    assert [head for head in heads if "git-upload-pack" in head]
    assert not [head for head in heads if "git-receive-pack" in head]
    assert all(guided.token in head or "basic " in head.lower() for head in heads)
    (denied,) = the_push(typist)
    assert_the_page_shows(denied, link, typist)


def prepared(text: str, guided: InstalledChart, canary: Internet, folder: Path) -> str:
    """Let the gateway trust the stand-in for GitHub, and the page take any free port."""
    if "create secret" in text:
        (folder / "upstreams.pem").write_text(canary.authority, "utf-8")
        return text.replace("--from-file=token", "--from-file=token --from-file=upstreams.pem")
    if "helm install" in text:
        with (folder / "values.yaml").open("a", encoding="utf-8") as values:
            values.write("gateway: { arguments: [--upstream-ca=/run/secrets/egress/upstreams.pem] }\n")
    return text


def the_push(typist: Typist) -> list[dict[str, str]]:
    """The line of the refused push in the collected log."""
    done = typist.type("egress log query --dir agents-log --claim first --verdict deny --json")
    assert done.returncode == 0, done.stdout
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def assert_the_page_shows(denied: dict[str, str], words: str, typist: Typist) -> None:
    """Sandbox, claim and replica stand on the page of the push; a browser sees it, where there is one."""
    assert denied["claim"] == "first"
    assert denied["sandbox"].startswith("workloads-"), "a member of the pool"
    assert denied["replica"] in {"egress-proxy-0", "egress-proxy-1"}
    assert denied["path"] == f"/{REPOSITORY}/info/refs"
    with review_page(words, typist) as link:
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        opener.open(link, timeout=30).read()
        address = link.partition("/login")[0] + f"/request?id={denied['request']}"
        shown = opener.open(address, timeout=30).read().decode()
        for key in ("sandbox", "claim", "replica", "pod", "namespace"):
            assert denied[key] in shown, f"{key} is not on the page"
        browser = chromium.start(typist.folder / "profile")
        if browser is None:
            return
        try:
            browser.get(link)
            browser.get(address)
            text = browser.execute_script("return document.querySelector('main').innerText")
            picture = typist.folder / "push.png"
            chromium.size(browser, 1280, 1100)
            assert browser.save_screenshot(str(picture))
        finally:
            browser.quit()
        assert {denied[key] for key in ("sandbox", "claim", "replica")} <= set(re.split(r"[\s,]+", text))


@contextmanager
def review_page(words: str, typist: Typist) -> Iterator[str]:
    """Run `egress ui` with the words of the guide, and give its link."""
    command = f"exec egress ui {words} --listen 127.0.0.1:0"
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=typist.folder,
        env=typist.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said: list[str] = []
        try:
            for line in process.stdout:
                said.append(line)
                if found := LINK.search(line):
                    yield found[0]
                    return
            raise AssertionError("".join(said))
        finally:
            process.terminate()
