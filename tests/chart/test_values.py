"""Values that the chart does not know, or that cannot be right, are refused before anything is installed."""

from __future__ import annotations

import pytest

from tests.chart.rendered_chart import VALUES, HelmError, Json, objects, one, rendered


@pytest.mark.parametrize(
    "values",
    [
        {"replicas": 2},
        {"gateway": {"replica": 2}},
        {"gateway": {"replicas": 0}},
        {"gateway": {"replicas": "2"}},
        {"gateway": {"resources": {"limits": {"memory": None}}}},
        {"gateway": {"arguments": ["--listen=0.0.0.0:1"]}},
        {"gateway": {"arguments": ["--network"]}},
        {"gateway": {"arguments": ["serve"]}},
        {"gateway": {"spread": "maybe"}},
        {"service": {"address": "10.96.0.256"}},
        {"service": {"address": "egress-proxy.agents"}},
        {"service": {"address": "10.96.0.92\n  clusterIP: 10.96.0.1"}},
        {"cluster": {"serviceRanges": []}},
        {"cluster": {"podRanges": ["10.244.0.0"]}},
        {"cluster": {"apiServers": []}},
        {"cluster": {"apiServers": [{"address": "10.96.0.1", "port": 0}]}},
        {"cluster": {"nameServer": {"labels": None}}},
        {"outbound": {"ports": []}},
        {"outbound": {"except": ["::/0"]}},
        {"secrets": {"mounted": "../token"}},
        {"secrets": {"readable": ["*"]}},
        {"image": {"name": "egress proxy"}},
        {"image": {"pullPolicy": "Sometimes"}},
        {"state": {"kind": "hostPath"}},
        {"metrics": {"enabled": "yes"}},
        {"metrics": {"scraper": {"labels": {}, "name": "x"}}},
        {"outbound": {"rules": [{"ports": [{"port": 443}]}]}},
        {"outbound": {"rules": [{"to": [], "ports": [{"port": 443}]}]}},
        {"admission": {"validate": "no"}},
        {"admission": {"images": ["'] + ['x"]}},
        {"gate": {"canary": "example.com:443"}},
        {"adminPolicy": {"priority": 1001}},
        {"rules": {"text": ["version: 1"]}},
    ],
    ids=str,
)
def test_a_wrong_value_is_refused(values: Json) -> None:
    with pytest.raises(HelmError, match=r"values don't meet the specifications|missing property|is required"):
        rendered(values)


def test_rules_come_from_a_file_as_they_are() -> None:
    text = "version: 1\nhosts:\n  example.com: {allow: [{id: 'a: b'}]}\n"
    assert one(objects({"rules": {"text": text}}), "ConfigMap")["data"] == {"hosts.yaml": text}
    assert [each for each in objects({"rules": {"create": False}}) if each["kind"] == "ConfigMap"] == []


def test_a_secret_can_be_read_only_where_the_values_name_it() -> None:
    def opened(values: Json) -> list[Json]:
        rules: list[Json] = one(objects(values), "Role", "egress-proxy")["rules"]
        return [rule for rule in rules if "secrets" in rule["resources"]]

    assert opened({}) == []
    (rule,) = opened({"secrets": {"readable": ["github"]}})
    assert rule["resourceNames"] == ["github"]


def test_one_replica_can_be_drained_from_its_node() -> None:
    assert one(objects(), "PodDisruptionBudget")["spec"]["minAvailable"] == 1
    alone = objects({"gateway": {"replicas": 1}})
    assert [each for each in alone if each["kind"] == "PodDisruptionBudget"] == []


def test_a_replica_has_longer_to_end_than_its_requests_have() -> None:
    pod = one(objects({"gateway": {"drainSeconds": 7}}), "StatefulSet")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 17
    assert "--drain=7s" in pod["containers"][0]["args"]


def test_no_rule_leads_to_an_api_server() -> None:
    servers = [{"address": "203.0.113.5", "port": 6443}, {"address": "2001:db8::5", "port": 6443}]
    found = objects({"cluster": {"apiServers": servers}})
    arguments = one(found, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--own-address=203.0.113.5/32", "--own-address=2001:db8::5/128"} <= set(arguments)
    for name in ("proxy", "authority"):
        ways = one(found, "NetworkPolicy", name)["spec"]["egress"]
        assert {"to": [{"ipBlock": {"cidr": "203.0.113.5/32"}}], "ports": [{"port": 6443}]} in ways
        assert {"to": [{"ipBlock": {"cidr": "2001:db8::5/128"}}], "ports": [{"port": 6443}]} in ways


def test_metrics_are_for_those_who_scrape() -> None:
    def ways(values: Json) -> list[Json]:
        found: list[Json] = one(objects(values), "NetworkPolicy", "proxy")["spec"]["ingress"]
        return found

    assert [way["from"] for way in ways({}) if {"port": 9464} in way["ports"]] == []
    _, scraper, _ = ways({"metrics": {"enabled": True, "scraper": {"namespace": "observability"}}})
    assert scraper["ports"] == [{"port": 9464}]
    (peer,) = scraper["from"]
    assert peer["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "observability"}}
    assert peer["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}


def test_the_admin_policy_holds_for_every_pod_but_the_gateway_and_the_job() -> None:
    assert "ClusterNetworkPolicy" not in {each["kind"] for each in objects()}
    spec = one(objects({"adminPolicy": {"enabled": True, "priority": 7}}), "ClusterNetworkPolicy")["spec"]
    assert (spec["tier"], spec["priority"]) == ("Admin", 7)
    (chosen,) = spec["subject"]["pods"]["podSelector"]["matchExpressions"]
    assert chosen == {"key": "app", "operator": "NotIn", "values": ["egress-proxy", "egress-authority"]}
    # The first rule that matches decides, so the way to the gateway stands before the wall.
    way, wall = spec["egress"]
    assert (way["action"], wall["action"]) == ("Pass", "Deny")
    assert way["to"][0]["pods"]["podSelector"] == {"matchLabels": {"app": "egress-proxy"}}
    assert wall["to"] == [{"networks": ["0.0.0.0/0", "::/0"]}]


def test_no_secret_is_a_value_or_an_object_of_the_chart() -> None:
    canary = "canary-of-a-secret"
    for values in ({"secrets": {"token": canary}}, {"secrets": {"mounted": {"token": canary}}}):
        with pytest.raises(HelmError) as refused:
            rendered(values)
        # Not even the error repeats it.
        assert canary not in str(refused.value)
    for values in VALUES.values():
        assert "Secret" not in {each["kind"] for each in objects(values)}
        pod = one(objects(values), "StatefulSet")["spec"]["template"]["spec"]
        assert all("valueFrom" not in each for each in pod["containers"][0]["env"])
