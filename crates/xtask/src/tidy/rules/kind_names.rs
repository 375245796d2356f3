//! Nothing generic speaks of one kind: no literal that is a kind's name or its plural.

use super::{Exception, is_excepted};
use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

/// Crates that must treat all kinds alike.
const GENERIC: &[&str] = &[
    "api",
    "apiserver",
    "cache",
    "client",
    "codec",
    "registry",
    "registry-api",
    "runtime",
    "strategy",
    "values",
];

const EXCEPTIONS: &[Exception] = &[
    Exception::new(
        "crates/apiserver/src/connect/",
        "streams lead to what runs: pods, nodes, services",
    ),
    Exception::new(
        "crates/apiserver/src/resource_metrics/scraper.rs",
        "the usage of nodes is read from their kubelets",
    ),
    Exception::new(
        "crates/apiserver/src/openapi/operations.rs",
        "custom kinds share their metadata with core ones",
    ),
    Exception::new(
        "crates/apiserver/src/filters/priority_and_fairness/",
        "flow control is set by objects of two kinds",
    ),
    Exception::new(
        "crates/codec/src/strict/kind.rs",
        "events of two groups are one type inside, which messages show",
    ),
    Exception::new(
        "crates/registry/src/subresources/",
        "a subresource belongs to one kind",
    ),
    Exception::new("crates/registry/src/crd/", "CustomResourceDefinitions make kinds"),
    Exception::new("crates/runtime/src/events.rs", "the recorder writes events"),
    Exception::new("crates/runtime/src/events/", "the recorder writes events"),
    Exception::new(
        "crates/values/src/quota/",
        "quotas count objects of three kinds by their fields",
    ),
    Exception::new("crates/runtime/src/leader.rs", "the election writes a lease"),
    Exception::new("crates/runtime/src/leader/", "the election writes a lease"),
    Exception::new(
        "crates/strategy/src/custom/",
        "CustomResourceDefinitions make kinds",
    ),
    Exception::new(
        "crates/strategy/src/go_dump.rs",
        "a Go struct may have a field with the name of a kind",
    ),
    Exception::new(
        "crates/strategy/src/meta.rs",
        "an event may not be the owner of an object",
    ),
];

/// The plural that is also a word of the path: it opens the part that belongs to one namespace.
const PATH_WORD: &str = "namespaces";

const PATH_READERS_AND_WRITERS: &[Exception] = &[
    Exception::new("crates/apiserver/src/request.rs", "reads paths"),
    Exception::new("crates/apiserver/src/request/", "reads paths"),
    Exception::new("crates/client/src/http.rs", "writes paths"),
    Exception::new("crates/client/src/http/", "writes paths"),
];

/// Kind and plural of what Kubernetes serves out of the box.
const KINDS: &[(&str, &str)] = &[
    ("APIService", "apiservices"),
    ("CSIDriver", "csidrivers"),
    ("CSINode", "csinodes"),
    ("CSIStorageCapacity", "csistoragecapacities"),
    ("CertificateSigningRequest", "certificatesigningrequests"),
    ("ClusterRole", "clusterroles"),
    ("ClusterRoleBinding", "clusterrolebindings"),
    ("ComponentStatus", "componentstatuses"),
    ("ConfigMap", "configmaps"),
    ("ControllerRevision", "controllerrevisions"),
    ("CronJob", "cronjobs"),
    ("CustomResourceDefinition", "customresourcedefinitions"),
    ("DaemonSet", "daemonsets"),
    ("Deployment", "deployments"),
    ("DeviceClass", "deviceclasses"),
    ("EndpointSlice", "endpointslices"),
    ("Endpoints", "endpoints"),
    ("Event", "events"),
    ("FlowSchema", "flowschemas"),
    ("HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    ("IPAddress", "ipaddresses"),
    ("Ingress", "ingresses"),
    ("IngressClass", "ingressclasses"),
    ("Job", "jobs"),
    ("Lease", "leases"),
    ("LimitRange", "limitranges"),
    ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    ("Namespace", "namespaces"),
    ("NetworkPolicy", "networkpolicies"),
    ("Node", "nodes"),
    ("PersistentVolume", "persistentvolumes"),
    ("PersistentVolumeClaim", "persistentvolumeclaims"),
    ("Pod", "pods"),
    ("PodDisruptionBudget", "poddisruptionbudgets"),
    ("PodTemplate", "podtemplates"),
    ("PriorityClass", "priorityclasses"),
    ("PriorityLevelConfiguration", "prioritylevelconfigurations"),
    ("ReplicaSet", "replicasets"),
    ("ReplicationController", "replicationcontrollers"),
    ("ResourceClaim", "resourceclaims"),
    ("ResourceQuota", "resourcequotas"),
    ("ResourceSlice", "resourceslices"),
    ("Role", "roles"),
    ("RoleBinding", "rolebindings"),
    ("RuntimeClass", "runtimeclasses"),
    ("Secret", "secrets"),
    ("Service", "services"),
    ("ServiceAccount", "serviceaccounts"),
    ("ServiceCIDR", "servicecidrs"),
    ("StatefulSet", "statefulsets"),
    ("StorageClass", "storageclasses"),
    ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    (
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    ("VolumeAttachment", "volumeattachments"),
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let generic = tree
        .rust()
        .filter(|source| source.krate().is_some_and(|name| GENERIC.contains(&name)));
    for source in generic.filter(|source| !is_excepted(EXCEPTIONS, &source.path)) {
        for (offset, literal) in source.production_literals() {
            if names_a_kind(literal) && !is_path_word(&source.path, literal) {
                report.violation(
                    source,
                    offset,
                    format!("\"{literal}\" names one kind: add to the kind's trait instead"),
                );
            }
        }
    }
}

fn names_a_kind(literal: &str) -> bool {
    KINDS
        .iter()
        .any(|(kind, plural)| *kind == literal || *plural == literal)
}

fn is_path_word(path: &str, literal: &str) -> bool {
    literal == PATH_WORD && is_excepted(PATH_READERS_AND_WRITERS, path)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    const IF: &str =
        "fn f(resource: &str) {\n    if resource == \"pods\" {}\n    match kind { \"Pod\" => {} }\n}\n";

    #[test]
    fn a_kind_in_generic_code_is_found() {
        let positions = [
            "crates/registry/src/verbs/create.rs:2",
            "crates/registry/src/verbs/create.rs:3",
        ];
        planted::check(check, &[("crates/registry/src/verbs/create.rs", IF)], &positions);
    }

    #[test]
    fn a_kinds_own_files_may_name_it() {
        let files = [
            ("crates/controllers/src/replica_set/mod.rs", IF),
            ("crates/kinds/src/core/pod/mod.rs", IF),
            ("crates/registry/src/subresources/binding.rs", IF),
        ];
        planted::check(check, &files, &[]);
    }

    #[test]
    fn docs_tests_and_longer_texts_pass() {
        let text = "/// Such as \"pods\".\nfn f() { \"pods are many\" }\n#[cfg(test)]\nmod tests { fn f() { \"pods\" } }\n";
        planted::check(check, &[("crates/api/src/key.rs", text)], &[]);
    }

    #[test]
    fn the_path_parser_knows_the_segment_of_namespaces() {
        let text = "fn f() { \"namespaces\"; \"nodes\" }\n";
        planted::check(
            check,
            &[("crates/apiserver/src/request.rs", text)],
            &["crates/apiserver/src/request.rs:1"],
        );
    }
}
