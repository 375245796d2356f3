//! What a caller should know about a pod or a template that is fine: what is old, doubled or means nothing.

mod files;

use std::collections::{BTreeMap, BTreeSet};

use crate::at::At;
use crate::shared::{ip, name, node_selector};

use super::{annotations, prepare, spec};

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const OLD_APP_ARMOR: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
const OLD_SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
/// Annotations that nothing reads any more.
const OLD_ANNOTATIONS: &[(&str, &str)] = &[
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

/// What there is to say, in the order in which it was found.
struct Said(Vec<String>);

impl Said {
    fn say(&mut self, place: &At<'_>, what: &str) {
        self.0.push(format!("{}: {what}", place.errors().path()));
    }
}

/// About a pod that is new.
pub(super) fn of_pod(pod: &At<'_>) -> Vec<String> {
    let mut said = Said(Vec::new());
    let metadata = pod.at("metadata");
    said.of_app_armor(&metadata, &pod.at("spec"), false);
    let complaints = name::label(metadata.at("name").str());
    if !complaints.is_empty() {
        said.0.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            complaints.join(" ")
        ));
    }
    said.of_spec(&metadata, &pod.at("spec"), false);
    said.0
}

/// About a template.
pub(super) fn of_template(template: &At<'_>) -> Vec<String> {
    let mut said = Said(Vec::new());
    said.of_spec(&template.at("metadata"), &template.at("spec"), true);
    said.0
}

impl Said {
    fn of_spec(&mut self, metadata: &At<'_>, spec: &At<'_>, template: bool) {
        self.of_labels(spec);
        for (key, why) in OLD_ANNOTATIONS {
            let annotation = metadata.at("annotations").key(key);
            if annotation.is_set() {
                self.say(&annotation, why);
            }
        }
        self.of_volumes(&spec.at("volumes"));
        self.of_doubles(&spec.at("hostAliases"), "ip");
        self.of_doubles(&spec.at("imagePullSecrets"), "name");
        for secret in spec.at("imagePullSecrets").items() {
            if secret.at("name").is_empty() {
                self.say(&secret.at("name"), "invalid empty name \"\"");
            }
        }
        self.of_parts(&spec.at("overhead"));
        self.of_containers(metadata, spec, template);
        self.of_ports(spec);
        let grace = spec.at("terminationGracePeriodSeconds");
        if grace.int() < 0 {
            self.say(
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

    fn of_labels(&mut self, spec: &At<'_>) {
        for (key, value) in spec.at("nodeSelector").entries() {
            if let Some(why) = node_selector::deprecated(key) {
                self.say(&value, why);
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
                self.say(&key, &format!("{} is {why}", key.str()));
            }
            self.of_selector(&constraint.at("labelSelector"));
        }
    }

    fn of_term(&mut self, term: &At<'_>, with_values: bool) {
        for expression in term.at("matchExpressions").items() {
            let key = expression.at("key");
            if let Some(why) = node_selector::deprecated(key.str()) {
                self.say(&key, &format!("{} is {why}", key.str()));
            }
            let values = expression.at("values").items().filter(|_| with_values);
            for value in values {
                for complaint in name::label_value(value.str()) {
                    self.0.push(format!(
                        "{}: {:?} is invalid, {complaint}",
                        value.errors().path(),
                        value.str()
                    ));
                }
            }
        }
    }

    fn of_selector(&mut self, selector: &At<'_>) {
        if !selector.is_set() {
            self.say(selector, NO_SELECTOR);
        }
    }

    fn of_pod_affinity(&mut self, affinity: &At<'_>) {
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

    fn of_doubles(&mut self, list: &At<'_>, field: &str) {
        let mut seen = BTreeSet::new();
        for place in list.items().map(|item| item.at(field)) {
            if !seen.insert(place.str()) {
                self.say(&place, &format!("duplicate {field} {:?}", place.str()));
            }
        }
    }

    /// A part of a byte is nothing that anyone can give.
    fn of_parts(&mut self, amounts: &At<'_>) {
        for amount in ["memory", "ephemeral-storage"].map(|name| amounts.key(name)) {
            self.of_part(&amount);
        }
    }

    fn of_part(&mut self, amount: &At<'_>) {
        if amount
            .quantity()
            .is_some_and(|amount| amount.milli_value() % 1000 != 0)
        {
            let why = format!(
                "fractional byte value {:?} is invalid, must be an integer",
                amount.str()
            );
            self.say(amount, &why);
        }
    }

    fn of_containers(&mut self, metadata: &At<'_>, spec: &At<'_>, template: bool) {
        let own = metadata.at("annotations");
        let of_pod = own.key(annotations::SECCOMP_OF_POD);
        if of_pod.is_set() && !spec.at("securityContext").at("seccompProfile").is_set() {
            self.say(&of_pod, OLD_SECCOMP);
        }
        for container in spec::all_containers(spec) {
            self.of_container_seccomp(&own, &container);
            if template {
                self.of_container_app_armor(&own, spec, &container, true);
            }
            let resources = container.at("resources");
            for name in ["memory", "ephemeral-storage"] {
                for list in ["limits", "requests"] {
                    self.of_part(&resources.at(list).key(name));
                }
            }
            self.of_variables(&container.at("env"));
        }
    }

    fn of_container_seccomp(&mut self, own: &At<'_>, container: &At<'_>) {
        if own.is_empty() {
            return;
        }
        let name = container.at("name").str();
        let annotation = own.key(&format!("{}{name}", annotations::SECCOMP_OF_CONTAINER));
        let profile = container.at("securityContext").at("seccompProfile");
        if annotation.is_set() && !profile.is_set() {
            self.say(&annotation, OLD_SECCOMP);
        }
    }

    fn of_app_armor(&mut self, metadata: &At<'_>, spec: &At<'_>, template: bool) {
        if metadata.at("annotations").is_empty() || spec.at("os").at("name").str() == "windows" {
            return;
        }
        for container in spec::all_containers(spec) {
            self.of_container_app_armor(&metadata.at("annotations"), spec, &container, template);
        }
    }

    /// By the time a pod is looked at, its annotation has become the field, so that the two are the same.
    fn of_container_app_armor(&mut self, own: &At<'_>, spec: &At<'_>, container: &At<'_>, template: bool) {
        let key = format!("{}{}", annotations::APP_ARMOR, container.at("name").str());
        let annotation = own.key(&key);
        if !annotation.is_set() {
            return;
        }
        let profile = container.at("securityContext").at("appArmorProfile");
        let of_pod = spec.at("securityContext").at("appArmorProfile");
        let meant = match template {
            true => annotations::app_armor(annotation.str()),
            false => prepare::meant(own.value(), container.value()),
        };
        let is = |place: &At<'_>| {
            meant
                .as_ref()
                .is_some_and(|meant| place.value().means_same(meant))
        };
        let old = match template {
            true => !profile.is_set() && !is(&of_pod),
            false => meant.is_none() && !profile.is_set() || meant.is_some() && is(&profile) && !is(&of_pod),
        };
        if old {
            self.say(&annotation, OLD_APP_ARMOR);
        }
    }

    fn of_variables(&mut self, variables: &At<'_>) {
        let mut seen = BTreeSet::new();
        for variable in variables.items() {
            let (own, value) = (variable.at("name").str(), variable.at("value").str());
            if seen.insert(own) {
                continue;
            }
            // A value may build on the one before: then nothing is hidden.
            let before = format!("$({own})");
            if variable.at("valueFrom").is_set() || value == before || !value.contains(&before) {
                let why =
                    format!("hides previous definition of {own:?}, which may be dropped when using apply");
                self.say(&variable, &why);
            }
        }
    }

    fn of_ports(&mut self, spec: &At<'_>) {
        let ports = || spec::all_containers(spec).flat_map(|container| container.at("ports").items());
        let mut seen: BTreeMap<(i64, &str), Vec<At<'_>>> = BTreeMap::new();
        for port in ports() {
            if !port.at("hostIP").is_empty() && port.at("hostPort").int() == 0 {
                self.say(&port, &format!("hostIP set without hostPort: {}", in_go(&port)));
            }
            let key = (port.at("containerPort").int(), port.at("protocol").str());
            let others = seen.entry(key).or_default();
            for other in others.iter() {
                if let Some(how) = overlap(&port, other) {
                    let why = format!("{how} port definition with {}", other.errors().path());
                    self.say(&port, &why);
                }
            }
            others.push(port);
        }
        let mut names: BTreeMap<&str, At<'_>> = BTreeMap::new();
        for port in ports().filter(|port| !port.at("name").is_empty()) {
            let own = port.at("name").str();
            match names.get(own) {
                Some(other) => {
                    let other = other.errors().path();
                    let why = format!(
                        "duplicate port name {own:?} with {other}, services and probes that select ports by name will use {other}"
                    );
                    self.say(&port, &why);
                }
                None => _ = names.insert(own, port),
            }
        }
    }
}

/// How one port stands in the way of another of the same number.
fn overlap(port: &At<'_>, other: &At<'_>) -> Option<&'static str> {
    let facts = |port: &At<'_>| (port.at("hostIP").is_empty(), port.at("hostPort").int());
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

/// A port as Go prints a struct.
fn in_go(port: &At<'_>) -> String {
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
