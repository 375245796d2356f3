//! Each case is a spec and its warnings.

use setpoint_api::field::Errors;
use setpoint_schema::Tree;
use setpoint_strategy::{RequestFacts, Strategy, shape_of};

use super::*;

use crate::core::pod::Pod;

fn pod(text: &str) -> Tree {
    let text = format!("{{kind: Pod, apiVersion: v1, {text}}}");
    let mut pod = setpoint_codec::yaml::parse(text.as_bytes()).unwrap();
    setpoint_strategy::normal_form::normalise(shape_of(Pod::KIND), &mut pod).unwrap();
    Pod::default_fields(&mut pod);
    let facts = RequestFacts {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        user: std::sync::Arc::new(setpoint_api::User::component("tester")),
        event_ttl: std::time::Duration::from_secs(1),
        allow_privileged: false,
    };
    Pod::prepare_create(&mut pod, &facts);
    pod
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let pod = pod(text);
    let warnings = of_pod(&FieldRef::new(&pod, shape_of(Pod::KIND), &Errors::default()));
    assert_eq!(warnings, expected);
}

#[track_caller]
fn check_spec(spec: &str, expected: &[&str]) {
    check(&format!("metadata: {{name: a}}, spec: {{{spec}}}"), expected);
}

#[test]
fn a_plain_pod_has_no_warnings() {
    check_spec("containers: [{name: c, image: x}]", &[]);
}

#[test]
fn a_name_that_is_no_dns_label_is_warned_about() {
    check(
        "metadata: {name: a.b}, spec: {}",
        &[
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
        ],
    );
}

#[test]
fn conflicting_ports_are_warned_about() {
    check_spec(
        "containers: [{name: c, ports: [{containerPort: 80, name: a}, {containerPort: 80, name: a}, {containerPort: 80, hostPort: 1}, {containerPort: 81, hostIP: 1.1.1.1}]}]",
        &[
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
            "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[0]",
            "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[1]",
            "spec.containers[0].ports[3]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:81 Protocol:TCP HostIP:1.1.1.1}",
            "spec.containers[0].ports[1]: duplicate port name \"a\" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]",
        ],
    );
}

#[test]
fn a_variable_that_hides_another_is_warned_about() {
    check_spec(
        "containers: [{name: c, env: [{name: A, value: x}, {name: A, value: z}, {name: A, value: \"$(A):z\"}]}]",
        &[
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
        ],
    );
}

#[test]
fn fractions_of_bytes_are_warned_about() {
    check_spec(
        "containers: [{name: c, resources: {requests: {memory: 100m}}}]",
        &[
            "spec.containers[0].resources.requests[memory]: fractional byte value \"100m\" is invalid, must be an integer",
        ],
    );
}

#[test]
fn overlapping_files_are_warned_about() {
    check_spec(
        "volumes: [{name: v, configMap: {name: m, items: [{key: a, path: x}, {key: b, path: x/z}]}}, {name: p, projected: {sources: [{}, {serviceAccountToken: {path: t}}, {secret: {name: s, items: [{key: k, path: t}]}}]}}]",
        &[
            "volume \"v\" (ConfigMap \"m\"): overlapping paths: \"x/z\" with \"x\"",
            "volume \"p\" (Projected) has no sources provided",
            "volume \"p\" (Projected): overlapping paths: \"t\" (Secret \"s\") with \"t\" (ServiceAccountToken)",
        ],
    );
}

#[test]
fn deprecated_fields_are_warned_about() {
    check_spec(
        "nodeSelector: {beta.kubernetes.io/os: linux}, volumes: [{name: v, gitRepo: {}}], topologySpreadConstraints: [{topologyKey: z}]",
        &[
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        ],
    );
    check(
        "metadata: {name: a, annotations: {container.apparmor.security.beta.kubernetes.io/c: unconfined, seccomp.security.alpha.kubernetes.io/pod: unconfined}}, spec: {containers: [{name: c}]}",
        &[
            "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the \"appArmorProfile\" field instead",
            "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \"seccompProfile\" field instead",
        ],
    );
}

#[test]
fn duplicates_are_warned_about() {
    check_spec(
        "imagePullSecrets: [{name: a}, {name: a}], hostAliases: [{ip: \"FE80::1\"}], terminationGracePeriodSeconds: 5",
        &[
            "spec.imagePullSecrets[1].name: duplicate name \"a\"",
            "spec.hostAliases[0].ip: IPv6 address \"FE80::1\" should be in RFC 5952 canonical format (\"fe80::1\")",
        ],
    );
}
