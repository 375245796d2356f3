//! Warnings about a valid pod or template: deprecated, duplicate or meaningless fields.

mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use crate::field::FieldRef;
use crate::shared::{ip, name, node_selector};

use super::{annotations, prepare, spec};

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const DEPRECATED_APP_ARMOR: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
const DEPRECATED_SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
/// Annotations without a function.
const DEPRECATED_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// The warnings, in the order of upstream.
struct Warnings(Vec<String>);

impl Warnings {
    fn add(&mut self, field: &FieldRef<'_>, what: &str) {
        self.0.push(format!("{}: {what}", field.errors().path()));
    }
}

/// Warnings about a new pod.
pub(super) fn of_pod(pod: &FieldRef<'_>) -> Vec<String> {
    let mut warnings = Warnings(Vec::new());
    let metadata = pod.at("metadata");
    warnings.of_app_armor(&metadata, &pod.at("spec"), false);
    let violations = name::check_dns1123_label(metadata.at("name").str());
    if !violations.is_empty() {
        warnings.0.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            violations.join(" ")
        ));
    }
    warnings.of_spec(&metadata, &pod.at("spec"), false);
    warnings.0
}

/// Warnings about a pod template.
pub(super) fn of_template(template: &FieldRef<'_>) -> Vec<String> {
    let mut warnings = Warnings(Vec::new());
    warnings.of_spec(&template.at("metadata"), &template.at("spec"), true);
    warnings.0
}

impl Warnings {
    fn of_spec(&mut self, metadata: &FieldRef<'_>, spec: &FieldRef<'_>, template: bool) {
        self.of_labels(spec);
        for (key, why) in DEPRECATED_ANNOTATIONS {
            let annotation = metadata.at("annotations").key(key);
            if annotation.is_set() {
                self.add(&annotation, why);
            }
        }
        self.of_volumes(&spec.at("volumes"));
        self.of_duplicates(&spec.at("hostAliases"), "ip");
        self.of_duplicates(&spec.at("imagePullSecrets"), "name");
        for secret in spec.at("imagePullSecrets").items() {
            if secret.at("name").is_empty() {
                self.add(&secret.at("name"), "invalid empty name \"\"");
            }
        }
        self.of_fractions(&spec.at("overhead"));
        self.of_containers(metadata, spec, template);
        self.of_ports(spec);
        let grace = spec.at("terminationGracePeriodSeconds");
        if grace.int() < 0 {
            self.add(
                &grace,
                "must be >= 0; negative values are invalid and will be treated as 1",
            );
        }
        self.of_pod_affinity(&spec.at("affinity"));
        let servers = spec.at("dnsConfig").at("nameservers").items();
        let aliases = spec.at("hostAliases").items().map(|alias| alias.at("ip"));
        for address in servers.chain(aliases) {
            self.0.extend(ip::warn(&address.errors().path(), address.str()));
        }
    }

    fn of_labels(&mut self, spec: &FieldRef<'_>) {
        for (key, value) in spec.at("nodeSelector").entries() {
            if let Some(why) = node_selector::deprecated(key) {
                self.add(&value, why);
            }
        }
        let nodes = spec.at("affinity").at("nodeAffinity");
        for term in nodes.at(REQUIRED).at("nodeSelectorTerms").items() {
            self.of_term(&term, false);
        }
        for term in nodes.at(PREFERRED).items() {
            self.of_term(&term.at("preference"), true);
        }
        for constraint in spec.at("topologySpreadConstraints").items() {
            let key = constraint.at("topologyKey");
            if let Some(why) = node_selector::deprecated(key.str()) {
                self.add(&key, &format!("{} is {why}", key.str()));
            }
            self.of_selector(&constraint.at("labelSelector"));
        }
    }

    fn of_term(&mut self, term: &FieldRef<'_>, with_values: bool) {
        for expression in term.at("matchExpressions").items() {
            let key = expression.at("key");
            if let Some(why) = node_selector::deprecated(key.str()) {
                self.add(&key, &format!("{} is {why}", key.str()));
            }
            let values = expression.at("values").items().filter(|_| with_values);
            for value in values {
                for violation in name::check_label_value(value.str()) {
                    self.0.push(format!(
                        "{}: {:?} is invalid, {violation}",
                        value.errors().path(),
                        value.str()
                    ));
                }
            }
        }
    }

    fn of_selector(&mut self, selector: &FieldRef<'_>) {
        if !selector.is_set() {
            self.add(selector, NO_SELECTOR);
        }
    }

    fn of_pod_affinity(&mut self, affinity: &FieldRef<'_>) {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let affinity = affinity.at(kind);
            for term in affinity.at(REQUIRED).items() {
                self.of_selector(&term.at("labelSelector"));
            }
            for weighted in affinity.at(PREFERRED).items() {
                self.of_selector(&weighted.at("podAffinityTerm").at("labelSelector"));
            }
        }
    }

    fn of_duplicates(&mut self, list: &FieldRef<'_>, field: &str) {
        let mut seen = BTreeSet::new();
        for value in list.items().map(|item| item.at(field)) {
            if !seen.insert(value.str()) {
                self.add(&value, &format!("duplicate {field} {:?}", value.str()));
            }
        }
    }

    /// Fractions of bytes cannot be allocated.
    fn of_fractions(&mut self, amounts: &FieldRef<'_>) {
        for amount in ["memory", "ephemeral-storage"].map(|name| amounts.key(name)) {
            self.of_fraction(&amount);
        }
    }

    fn of_fraction(&mut self, amount: &FieldRef<'_>) {
        if amount
            .quantity()
            .is_some_and(|amount| amount.milli_value() % 1000 != 0)
        {
            let why = format!(
                "fractional byte value {:?} is invalid, must be an integer",
                amount.str()
            );
            self.add(amount, &why);
        }
    }

    fn of_containers(&mut self, metadata: &FieldRef<'_>, spec: &FieldRef<'_>, template: bool) {
        let annotations = metadata.at("annotations");
        let of_pod = annotations.key(annotations::SECCOMP_OF_POD);
        if of_pod.is_set() && !spec.at("securityContext").at("seccompProfile").is_set() {
            self.add(&of_pod, DEPRECATED_SECCOMP);
        }
        for container in spec::all_containers(spec) {
            self.of_container_seccomp(&annotations, &container);
            if template {
                self.of_container_app_armor(&annotations, spec, &container, true);
            }
            let resources = container.at("resources");
            for name in ["memory", "ephemeral-storage"] {
                for list in ["limits", "requests"] {
                    self.of_fraction(&resources.at(list).key(name));
                }
            }
            self.of_variables(&container.at("env"));
        }
    }

    fn of_container_seccomp(&mut self, pod_annotations: &FieldRef<'_>, container: &FieldRef<'_>) {
        if pod_annotations.is_empty() {
            return;
        }
        let name = container.at("name").str();
        let annotation = pod_annotations.key(&format!("{}{name}", annotations::SECCOMP_OF_CONTAINER));
        let profile = container.at("securityContext").at("seccompProfile");
        if annotation.is_set() && !profile.is_set() {
            self.add(&annotation, DEPRECATED_SECCOMP);
        }
    }

    fn of_app_armor(&mut self, metadata: &FieldRef<'_>, spec: &FieldRef<'_>, template: bool) {
        if metadata.at("annotations").is_empty() || spec.at("os").at("name").str() == "windows" {
            return;
        }
        for container in spec::all_containers(spec) {
            self.of_container_app_armor(&metadata.at("annotations"), spec, &container, template);
        }
    }

    /// A new pod's annotation has already been copied to the field, so the two are equal.
    fn of_container_app_armor(
        &mut self,
        pod_annotations: &FieldRef<'_>,
        spec: &FieldRef<'_>,
        container: &FieldRef<'_>,
        template: bool,
    ) {
        let key = format!("{}{}", annotations::APP_ARMOR, container.at("name").str());
        let annotation = pod_annotations.key(&key);
        if !annotation.is_set() {
            return;
        }
        let profile = container.at("securityContext").at("appArmorProfile");
        let of_pod = spec.at("securityContext").at("appArmorProfile");
        let meant = match template {
            true => annotations::app_armor(annotation.str()),
            false => prepare::annotated_profile(pod_annotations.value(), container.value()),
        };
        let is = |field: &FieldRef<'_>| {
            meant
                .as_ref()
                .is_some_and(|meant| field.value().semantic_eq(meant))
        };
        let old = match template {
            true => !profile.is_set() && !is(&of_pod),
            false => meant.is_none() && !profile.is_set() || meant.is_some() && is(&profile) && !is(&of_pod),
        };
        if old {
            self.add(&annotation, DEPRECATED_APP_ARMOR);
        }
    }

    fn of_variables(&mut self, variables: &FieldRef<'_>) {
        let mut seen = BTreeSet::new();
        for variable in variables.items() {
            let (name, value) = (variable.at("name").str(), variable.at("value").str());
            if seen.insert(name) {
                continue;
            }
            // A value that references the previous one extends it, and hides nothing.
            let before = format!("$({name})");
            if variable.at("valueFrom").is_set() || value == before || !value.contains(&before) {
                let why =
                    format!("hides previous definition of {name:?}, which may be dropped when using apply");
                self.add(&variable, &why);
            }
        }
    }

    fn of_ports(&mut self, spec: &FieldRef<'_>) {
        let ports = || spec::all_containers(spec).flat_map(|container| container.at("ports").items());
        let mut seen: BTreeMap<(i64, &str), Vec<FieldRef<'_>>> = BTreeMap::new();
        for port in ports() {
            if !port.at("hostIP").is_empty() && port.at("hostPort").int() == 0 {
                self.add(
                    &port,
                    &format!("hostIP set without hostPort: {}", go_struct(&port)),
                );
            }
            let key = (port.at("containerPort").int(), port.at("protocol").str());
            let others = seen.entry(key).or_default();
            for other in others.iter() {
                if let Some(how) = overlap(&port, other) {
                    let why = format!("{how} port definition with {}", other.errors().path());
                    self.add(&port, &why);
                }
            }
            others.push(port);
        }
        let mut names: BTreeMap<&str, FieldRef<'_>> = BTreeMap::new();
        for port in ports().filter(|port| !port.at("name").is_empty()) {
            let name = port.at("name").str();
            match names.get(name) {
                Some(other) => {
                    let other = other.errors().path();
                    let why = format!(
                        "duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
                    );
                    self.add(&port, &why);
                }
                None => _ = names.insert(name, port),
            }
        }
    }
}

/// How a port conflicts with another of the same number.
fn overlap(port: &FieldRef<'_>, other: &FieldRef<'_>) -> Option<&'static str> {
    let facts = |port: &FieldRef<'_>| (port.at("hostIP").is_empty(), port.at("hostPort").int());
    let ((any, number), (other_any, other_number)) = (facts(port), facts(other));
    let same_ip = port.at("hostIP").str() == other.at("hostIP").str();
    if same_ip && number == other_number {
        Some("duplicate")
    } else if number == 0 || other_number == 0 {
        Some("overlapping")
    } else if number == other_number && any != other_any {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

/// A port as Go's `%v` prints the struct.
fn go_struct(port: &FieldRef<'_>) -> String {
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        port.at("name").str(),
        port.at("hostPort").int(),
        port.at("containerPort").int(),
        port.at("protocol").str(),
        port.at("hostIP").str()
    )
}

#[cfg(test)]
mod tests;
