//! Warnings about a valid pod or template: deprecated, duplicate or meaningless fields.

mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, ip, name};

use crate::shared::node_selector;

use super::{annotations, prepare, spec};

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";
const REQUIRED: &str = fields::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION;
const PREFERRED: &str = fields::PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION;
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
    let metadata = pod.at(fields::METADATA);
    warnings.of_app_armor(&metadata, &pod.at(fields::SPEC), false);
    let violations = name::check_dns1123_label(metadata.at(fields::NAME).str());
    if !violations.is_empty() {
        warnings.0.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            violations.join(" ")
        ));
    }
    warnings.of_spec(&metadata, &pod.at(fields::SPEC), false);
    warnings.0
}

/// Warnings about a pod template.
pub(super) fn of_template(template: &FieldRef<'_>) -> Vec<String> {
    let mut warnings = Warnings(Vec::new());
    warnings.of_spec(&template.at(fields::METADATA), &template.at(fields::SPEC), true);
    warnings.0
}

impl Warnings {
    fn of_spec(&mut self, metadata: &FieldRef<'_>, spec: &FieldRef<'_>, template: bool) {
        self.of_labels(spec);
        for (key, why) in DEPRECATED_ANNOTATIONS {
            let annotation = metadata.at(fields::ANNOTATIONS).key(key);
            if annotation.is_set() {
                self.add(&annotation, why);
            }
        }
        self.of_volumes(&spec.at(fields::VOLUMES));
        self.of_duplicates(&spec.at(fields::HOST_ALIASES), fields::IP);
        self.of_duplicates(&spec.at(fields::IMAGE_PULL_SECRETS), fields::NAME);
        for secret in spec.at(fields::IMAGE_PULL_SECRETS).items() {
            if secret.at(fields::NAME).is_empty() {
                self.add(&secret.at(fields::NAME), "invalid empty name \"\"");
            }
        }
        self.of_fractions(&spec.at(fields::OVERHEAD));
        self.of_containers(metadata, spec, template);
        self.of_ports(spec);
        let grace = spec.at(fields::TERMINATION_GRACE_PERIOD_SECONDS);
        if grace.int() < 0 {
            self.add(
                &grace,
                "must be >= 0; negative values are invalid and will be treated as 1",
            );
        }
        self.of_pod_affinity(&spec.at(fields::AFFINITY));
        let servers = spec.at(fields::DNS_CONFIG).at(fields::NAMESERVERS).items();
        let aliases = spec
            .at(fields::HOST_ALIASES)
            .items()
            .map(|alias| alias.at(fields::IP));
        for address in servers.chain(aliases) {
            self.0.extend(ip::warn(&address.errors().path(), address.str()));
        }
    }

    fn of_labels(&mut self, spec: &FieldRef<'_>) {
        for (key, value) in spec.at(fields::NODE_SELECTOR).entries() {
            if let Some(why) = node_selector::deprecated(key) {
                self.add(&value, why);
            }
        }
        let nodes = spec.at(fields::AFFINITY).at(fields::NODE_AFFINITY);
        if nodes.is_set() {
            for term in nodes.at(REQUIRED).at(fields::NODE_SELECTOR_TERMS).items() {
                self.of_term(&term, false);
            }
            for term in nodes.at(PREFERRED).items() {
                self.of_term(&term.at(fields::PREFERENCE), true);
            }
        }
        for constraint in spec.at(fields::TOPOLOGY_SPREAD_CONSTRAINTS).items() {
            let key = constraint.at(fields::TOPOLOGY_KEY);
            if let Some(why) = node_selector::deprecated(key.str()) {
                self.add(&key, &format!("{} is {why}", key.str()));
            }
            self.of_selector(&constraint.at(fields::LABEL_SELECTOR));
        }
    }

    fn of_term(&mut self, term: &FieldRef<'_>, with_values: bool) {
        for expression in term.at(fields::MATCH_EXPRESSIONS).items() {
            let key = expression.at(fields::KEY);
            if let Some(why) = node_selector::deprecated(key.str()) {
                self.add(&key, &format!("{} is {why}", key.str()));
            }
            let values = expression.at(fields::VALUES).items().filter(|_| with_values);
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
        if !affinity.is_set() {
            return;
        }
        for kind in [fields::POD_AFFINITY, fields::POD_ANTI_AFFINITY] {
            let affinity = affinity.at(kind);
            for term in affinity.at(REQUIRED).items() {
                self.of_selector(&term.at(fields::LABEL_SELECTOR));
            }
            for weighted in affinity.at(PREFERRED).items() {
                self.of_selector(&weighted.at(fields::POD_AFFINITY_TERM).at(fields::LABEL_SELECTOR));
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
        let annotations = metadata.at(fields::ANNOTATIONS);
        let has_profiles = annotations.map().is_some_and(annotations::have_profiles);
        let of_pod = annotations.key(annotations::SECCOMP_OF_POD);
        if of_pod.is_set()
            && !spec
                .at(fields::SECURITY_CONTEXT)
                .at(fields::SECCOMP_PROFILE)
                .is_set()
        {
            self.add(&of_pod, DEPRECATED_SECCOMP);
        }
        for container in spec::all_containers(spec) {
            if has_profiles {
                self.of_container_seccomp(&annotations, &container);
            }
            if has_profiles && template {
                self.of_container_app_armor(&annotations, spec, &container, true);
            }
            let resources = container.at(fields::RESOURCES);
            for name in ["memory", "ephemeral-storage"] {
                for list in [fields::LIMITS, fields::REQUESTS] {
                    self.of_fraction(&resources.at(list).key(name));
                }
            }
            self.of_variables(&container.at(fields::ENV));
        }
    }

    fn of_container_seccomp(&mut self, pod_annotations: &FieldRef<'_>, container: &FieldRef<'_>) {
        let name = container.at(fields::NAME).str();
        let annotation = pod_annotations.key(&format!("{}{name}", annotations::SECCOMP_OF_CONTAINER));
        let profile = container.at(fields::SECURITY_CONTEXT).at(fields::SECCOMP_PROFILE);
        if annotation.is_set() && !profile.is_set() {
            self.add(&annotation, DEPRECATED_SECCOMP);
        }
    }

    fn of_app_armor(&mut self, metadata: &FieldRef<'_>, spec: &FieldRef<'_>, template: bool) {
        let pod_annotations = metadata.at(fields::ANNOTATIONS);
        if !pod_annotations.map().is_some_and(annotations::have_profiles)
            || spec.at(fields::OS).at(fields::NAME).str() == "windows"
        {
            return;
        }
        for container in spec::all_containers(spec) {
            self.of_container_app_armor(&pod_annotations, spec, &container, template);
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
        let key = format!("{}{}", annotations::APP_ARMOR, container.at(fields::NAME).str());
        let annotation = pod_annotations.key(&key);
        if !annotation.is_set() {
            return;
        }
        let profile = container
            .at(fields::SECURITY_CONTEXT)
            .at(fields::APP_ARMOR_PROFILE);
        let of_pod = spec.at(fields::SECURITY_CONTEXT).at(fields::APP_ARMOR_PROFILE);
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
            let (name, value) = (variable.at(fields::NAME).str(), variable.at(fields::VALUE).str());
            if seen.insert(name) {
                continue;
            }
            // A value that references the previous one extends it, and hides nothing.
            let before = format!("$({name})");
            if variable.at(fields::VALUE_FROM).is_set() || value == before || !value.contains(&before) {
                let why =
                    format!("hides previous definition of {name:?}, which may be dropped when using apply");
                self.add(&variable, &why);
            }
        }
    }

    fn of_ports(&mut self, spec: &FieldRef<'_>) {
        let ports = || spec::all_containers(spec).flat_map(|container| container.at(fields::PORTS).items());
        let mut seen: BTreeMap<(i64, &str), Vec<FieldRef<'_>>> = BTreeMap::new();
        for port in ports() {
            if !port.at(fields::HOST_IP).is_empty() && port.at(fields::HOST_PORT).int() == 0 {
                self.add(
                    &port,
                    &format!("hostIP set without hostPort: {}", go_struct(&port)),
                );
            }
            let key = (
                port.at(fields::CONTAINER_PORT).int(),
                port.at(fields::PROTOCOL).str(),
            );
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
        for port in ports().filter(|port| !port.at(fields::NAME).is_empty()) {
            let name = port.at(fields::NAME).str();
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
    let facts = |port: &FieldRef<'_>| {
        (
            port.at(fields::HOST_IP).is_empty(),
            port.at(fields::HOST_PORT).int(),
        )
    };
    let ((any, number), (other_any, other_number)) = (facts(port), facts(other));
    let same_ip = port.at(fields::HOST_IP).str() == other.at(fields::HOST_IP).str();
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
        port.at(fields::NAME).str(),
        port.at(fields::HOST_PORT).int(),
        port.at(fields::CONTAINER_PORT).int(),
        port.at(fields::PROTOCOL).str(),
        port.at(fields::HOST_IP).str()
    )
}

#[cfg(test)]
mod tests;
