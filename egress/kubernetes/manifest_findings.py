"""Findings about manifests: every code with its meaning and its cure. The codes are stable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from egress.kubernetes.manifest_node import ManifestNode, path_text
from egress.kubernetes.manifest_objects import ManifestObject
from egress.types import Finding, Place, Severity


@dataclass(frozen=True, slots=True)
class FindingCode:
    """The meaning of a code, which never changes."""

    severity: Severity
    message: str
    hint: str


_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

FINDING_CODES: Final[dict[str, FindingCode]] = {
    "manifest.text": FindingCode(
        _ERROR, "the text cannot be read without doubt", "write it as the message says"
    ),
    "manifest.shape": FindingCode(
        _ERROR, "a value has the wrong type", "`kubectl apply --dry-run=server` shows the same"
    ),
    "manifest.size": FindingCode(_ERROR, "there are too many objects", "check them in parts"),
    "manifest.duplicate": FindingCode(
        _ERROR,
        "another object has the same kind and name, and only the last one of them will be there",
        "remove one of them",
    ),
    "manifest.empty": FindingCode(
        _ERROR, "no pod of a sandbox is in these files", "name the files with the workloads, too"
    ),
    # The fence: policies of one pod add up, so all of them are read together.
    "fence.none": FindingCode(
        _ERROR,
        "no network policy confines what leaves this pod",
        "add a NetworkPolicy with `podSelector: {}` and `policyTypes: [Ingress, Egress]` to its namespace",
    ),
    "fence.label": FindingCode(
        _ERROR,
        "only policies that ask for a label confine this pod, and it is open once the label is gone",
        "add a NetworkPolicy with `podSelector: {}` and `policyTypes: [Ingress, Egress]` to its namespace",
    ),
    "fence.ingress": FindingCode(
        _ERROR,
        "no network policy confines who may connect to this pod",
        "add a NetworkPolicy with `podSelector: {}` and `policyTypes: [Ingress, Egress]` to its namespace",
    ),
    "policy.types": FindingCode(
        _ERROR,
        "the policy names no direction and no egress rule, so it confines nothing that leaves",
        "write `policyTypes: [Ingress, Egress]`",
    ),
    "policy.everywhere": FindingCode(
        _ERROR, "an egress rule without `to` opens every address", "name the pods of the proxy in `to`"
    ),
    "policy.address": FindingCode(
        _ERROR,
        "an egress rule opens addresses beside the proxy",
        "select the pods of the proxy instead; an address of a service has no defined meaning in a policy",
    ),
    "policy.dns": FindingCode(
        _ERROR,
        "an egress rule opens another name server, which carries data out in the names it is asked for",
        "remove the rule, and give the pod the proxy as its name server",
    ),
    "policy.namespace": FindingCode(
        _ERROR,
        "an egress rule opens pods of other namespaces",
        "remove `namespaceSelector`, or name the one namespace of the proxy by `kubernetes.io/metadata.name`",
    ),
    "policy.pods": FindingCode(
        _ERROR, "an egress rule opens pods that are not the proxy's", "select the label of the proxy"
    ),
    "policy.ports": FindingCode(
        _WARNING,
        "an egress rule opens more ports of the proxy than it serves to sandboxes",
        "name the ports 3128, 443, 80 and 53",
    ),
    "policy.ingress": FindingCode(
        _WARNING,
        "an ingress rule lets anybody connect to a sandbox",
        "name the pods that may in `from`",
    ),
    "policy.unread": FindingCode(
        _ERROR,
        "a policy of this kind is not read here, and may open what the others shut",
        "read it yourself, then repeat the command with --accept",
    ),
    # agent-sandbox: its controller writes policies and pods from these.
    "template.open": FindingCode(
        _ERROR,
        "agent-sandbox adds a policy to this template that opens the whole public internet",
        "write `networkPolicy` into the template, or `networkPolicyManagement: Unmanaged`",
    ),
    "template.env": FindingCode(
        _WARNING,
        "claims may change the variables of this template, and then start cold",
        "remove `envVarsInjectionPolicy`",
    ),
    "pool.stale": FindingCode(
        _WARNING,
        "the pool hands out pods from before a change of its template: an old gate, an old certificate",
        "write `updateStrategy: {type: Recreate}`",
    ),
    "pool.template": FindingCode(
        _ERROR, "the template of this pool is not in these files", "name its file, too"
    ),
    "claim.pool": FindingCode(_ERROR, "the pool of this claim is not in these files", "name its file, too"),
    # The pod.
    "label.missing": FindingCode(
        _ERROR,
        "the pod has the label of neither a sandbox nor the proxy, so no policy of the fence is meant for it",
        "give it the label, or accept it by name if it is no sandbox",
    ),
    "label.proxy": FindingCode(
        _ERROR, "a sandbox has the label of the proxy, and with it the proxy's way out", "remove the label"
    ),
    "pod.host-network": FindingCode(
        _ERROR, "the pod is in the network of its node, which no policy confines", "remove `hostNetwork`"
    ),
    "pod.host-pid": FindingCode(_ERROR, "the pod sees the processes of its node", "remove `hostPID`"),
    "pod.host-ipc": FindingCode(_ERROR, "the pod shares memory with its node", "remove `hostIPC`"),
    "pod.host-path": FindingCode(_ERROR, "the pod sees files of its node", "use another kind of volume"),
    "pod.host-port": FindingCode(_ERROR, "a port of the node leads to the sandbox", "remove `hostPort`"),
    "pod.token": FindingCode(
        _ERROR,
        "the pod gets a token of the cluster",
        "write `automountServiceAccountToken: false`, and project no token",
    ),
    "pod.secret": FindingCode(
        _ERROR, "a volume brings a secret into the sandbox", "let the proxy inject it instead"
    ),
    "pod.proxy-volume": FindingCode(
        _ERROR, "the sandbox shares a volume with the proxy", "give each a volume of its own"
    ),
    "pod.volume": FindingCode(
        _ERROR,
        "the node mounts a volume of this kind over its own network, past every policy",
        "use a claim of a volume, whose server the platform chooses",
    ),
    "pod.dns": FindingCode(
        _ERROR,
        "the pod asks another name server than the proxy",
        "write `dnsPolicy: None` and the address of the proxy into `dnsConfig.nameservers`",
    ),
    "pod.service-links": FindingCode(
        _WARNING,
        "the pod's variables list every service of the namespace",
        "write `enableServiceLinks: false`",
    ),
    "pod.unread": FindingCode(
        _ERROR,
        "an object of this kind holds containers, and it is not known which pods become of it",
        "check the pods that its controller makes: `kubectl get pods -o yaml`",
    ),
    "namespace.security": FindingCode(
        _WARNING,
        "the cluster does not refuse pods with rights in this namespace",
        "add the label `pod-security.kubernetes.io/enforce: restricted`",
    ),
    # Each container, init and ephemeral ones too.
    "container.privileged": FindingCode(
        _ERROR, "the container has the rights of the node", "remove `privileged`"
    ),
    "container.escalation": FindingCode(
        _ERROR, "a process can gain rights", "write `allowPrivilegeEscalation: false`"
    ),
    "container.capabilities": FindingCode(
        _ERROR, "the container has capabilities", "write `capabilities: {drop: [ALL]}` and add none"
    ),
    "container.root": FindingCode(
        _ERROR, "the container may run as root", "write `runAsNonRoot: true`, and no `runAsUser: 0`"
    ),
    "container.seccomp": FindingCode(
        _ERROR, "system calls are not filtered", "write `seccompProfile: {type: RuntimeDefault}`"
    ),
    "container.proc": FindingCode(_ERROR, "/proc is not masked", "remove `procMount`"),
    "container.secret": FindingCode(
        _ERROR, "a variable holds a secret of the cluster", "let the proxy inject it instead"
    ),
    "container.credential": FindingCode(
        _WARNING,
        "the value of a variable looks like a credential",
        "let the proxy inject it, and give the sandbox a placeholder",
    ),
    "container.requests": FindingCode(
        _WARNING,
        "a processor limit without a request is a request of the same size, which may fit no node",
        "write `resources.requests.cpu`",
    ),
    # The gate.
    "gate.missing": FindingCode(
        _ERROR,
        "no init container proves the fence, so the pod talks freely until its policies are in force",
        "`egress k8s inject` adds the gate",
    ),
    "gate.not-first": FindingCode(
        _ERROR, "containers start before the gate has proved the fence", "make the gate the first one"
    ),
    "gate.restart": FindingCode(
        _ERROR, "the gate runs beside the workload and holds nothing back", "remove its `restartPolicy`"
    ),
    "gate.blocked": FindingCode(
        _ERROR,
        "the gate dials too little to prove a fence",
        "name the API server and an address outside of the cluster with --blocked",
    ),
    "gate.proxy": FindingCode(
        _ERROR, "the gate does not ask for the proxy", "name its address with --gateway, or --proxy"
    ),
    "gate.uid": FindingCode(
        _ERROR,
        "the gate does not prove that the gateway knows its pod",
        "write `--gateway=ADDRESS:3128` and `--uid=$(POD_UID)`, with POD_UID from `metadata.uid`",
    ),
    "gate.passes": FindingCode(
        _ERROR, "the gate is content with too few rounds", "remove --passes: three are the default"
    ),
    "gate.mounts": FindingCode(
        _ERROR,
        "the gate mounts a volume, whose files could replace its program",
        "give the gate no volumes",
    ),
    "gate.arguments": FindingCode(
        _ERROR,
        "the gate has an argument that proves nothing",
        "use --blocked, --proxy, --passes and --timeout alone",
    ),
    "gate.env": FindingCode(
        _ERROR,
        "a variable of the gate can lead it to another address",
        "give it only variables that the cluster fills in: `status.hostIP`, `status.podIP`, `metadata.uid`",
    ),
    # The proxy in the pod of the workload.
    "sidecar.order": FindingCode(
        _ERROR,
        "the containers of Egress do not start in their order, so something talks before the lock holds",
        "the lock is the first init container, and the proxy stands between it and the gate",
    ),
    "sidecar.lock": FindingCode(
        _ERROR,
        "the lock of the network has another form than it needs, and may lock nothing",
        "`egress k8s inject --sidecar` writes it: root, NET_ADMIN alone, no volume and no variable",
    ),
    "sidecar.proxy": FindingCode(
        _ERROR,
        "no proxy with the user that the lock lets out runs for as long as the pod",
        "run `egress serve` as an init container with `restartPolicy: Always` and that user",
    ),
    "sidecar.user": FindingCode(
        _ERROR,
        "a container may run as the user of the proxy, whom the lock lets out",
        "write another `runAsUser` for it",
    ),
    "sidecar.mounts": FindingCode(
        _ERROR,
        "a container mounts a volume of the proxy",
        "mount only the certificate, and only for reading",
    ),
    "sidecar.processes": FindingCode(
        _ERROR,
        "the containers of the pod see each other's processes",
        "remove `shareProcessNamespace`",
    ),
    # The proxy.
    "proxy.program": FindingCode(
        _ERROR,
        "a pod has the label of the proxy and does not run it, so sandboxes reach another program",
        "give it another label",
    ),
    "proxy.ingress": FindingCode(
        _ERROR,
        "the proxy serves whoever reaches it, and more than sandboxes do",
        "admit only the label of sandboxes to its ports 3128, 443, 80 and 53",
    ),
    "proxy.egress": FindingCode(
        _WARNING,
        "the proxy reaches the addresses of the cluster and of its nodes",
        "open `0.0.0.0/0` except the private ranges",
    ),
}


@dataclass(frozen=True, slots=True)
class ManifestFinding:
    """A weakness of a fence: where it stands, in which object, and its cure."""

    code: str
    severity: Severity
    place: Place
    document: int
    title: str
    path: str
    message: str
    hint: str

    @property
    def as_finding(self) -> Finding:
        """The same in the form that every check of Egress prints."""
        where = f"document {self.document}, {self.title}, {self.path}" if self.title else self.path
        message = f"{self.message} [{self.code}{': ' if where else ''}{where}]"
        return Finding(self.place, self.severity, message, self.hint)


def finding_at(code: str, found: ManifestObject, node: ManifestNode, detail: str = "") -> ManifestFinding:
    """Make a finding at a node of an object; `detail` follows the meaning of the code."""
    known = FINDING_CODES[code]
    return ManifestFinding(
        code,
        known.severity,
        found.place(node),
        found.document.number,
        found.title,
        path_text(node.path),
        f"{known.message}: {detail}" if detail else known.message,
        known.hint,
    )


def finding_of_text(found: Finding) -> ManifestFinding:
    """Make a finding of a mistake in the text of a file."""
    return ManifestFinding("manifest.text", found.severity, found.place, 0, "", "", found.message, found.hint)


def finding_of_file(code: str, file: str) -> ManifestFinding:
    """Make a finding that no object of a file is the place of."""
    known = FINDING_CODES[code]
    return ManifestFinding(code, known.severity, Place(file, 1, 1), 0, "", "", known.message, known.hint)
