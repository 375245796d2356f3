//! Annotations of pods that have a meaning, most of them from before there were fields.

use std::cell::LazyCell;
use std::collections::HashSet;

use setpoint_schema::{Map, Tree, fields, prune};
use setpoint_strategy::FieldRef;

use super::spec::{self, tolerations};

/// Marks a mirror pod: a static pod that the kubelet runs and shows in the API.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
pub(super) const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Prefix of the container's name.
pub(super) const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// Prefix of the container's name.
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_DEFAULTS: &[&str] = &["runtime/default", "docker/default"];
const UNCONFINED: &str = "unconfined";
const LOCALHOST: &str = "localhost/";

/// Validates pod annotations.
pub(super) fn validate(annotations: &FieldRef<'_>, spec: &FieldRef<'_>, any_cost: bool) {
    if annotations.is_empty() {
        return;
    }
    let mirror = annotations.key(MIRROR);
    if mirror.is_set() && spec.at(fields::NODE_NAME).is_empty() {
        mirror.invalid("must set spec.nodeName if mirror pod annotation is set");
    }
    if !annotations.key(TOLERATIONS).is_empty() {
        validate_tolerations(annotations, spec);
    }
    if !any_cost && !is_deletion_cost(annotations) {
        annotations.key(DELETION_COST).invalid("must be a 32bit integer");
    }
    validate_seccomp(annotations);
    let profiles = annotations
        .entries()
        .filter_map(|(key, profile)| Some((key.strip_prefix(APP_ARMOR)?, profile)));
    let names = LazyCell::new(|| -> HashSet<&str> {
        let containers = spec::all_containers(spec);
        containers
            .map(|container| container.at(fields::NAME).str())
            .collect()
    });
    for (container, profile) in profiles {
        if !names.contains(container) {
            profile.invalid_as(container, "container not found");
        }
        let text = profile.str();
        let known = matches!(text, "" | "runtime/default" | UNCONFINED) || text.starts_with(LOCALHOST);
        if !known {
            profile.invalid(&format!("invalid AppArmor profile name: {text:?}"));
        }
    }
}

/// Whether the pod deletion cost, if set, is a plain integer.
pub(super) fn is_deletion_cost(annotations: &FieldRef<'_>) -> bool {
    let Some(cost) = annotations.key(DELETION_COST).find_str() else {
        return true;
    };
    let plain = cost == "0" || cost.starts_with(|first: char| first == '-' || ('1'..='9').contains(&first));
    plain && cost.parse::<i32>().is_ok()
}

/// Reports changes of immutable annotations.
pub(super) fn validate_update(annotations: &FieldRef<'_>, old: &FieldRef<'_>) {
    for (key, before) in old.entries() {
        let now = annotations.key(key);
        if now.is_set() && now.is_same(&before) {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            now.forbidden("may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            now.forbidden("may not remove or update mirror pod annotation");
        }
    }
    for (key, now) in annotations.entries().filter(|(key, _)| !old.key(key).is_set()) {
        if key.starts_with(APP_ARMOR) {
            now.forbidden("may not add AppArmor annotations");
        }
        if key == MIRROR {
            now.forbidden("may not add mirror pod annotation");
        }
    }
}

/// Whether any annotation sets a seccomp or an AppArmor profile.
pub(super) fn have_profiles(annotations: &Map) -> bool {
    let is_seccomp = |key: &str| key == SECCOMP_OF_POD || key.starts_with(SECCOMP_OF_CONTAINER);
    annotations
        .keys()
        .any(|key| is_seccomp(key) || key.starts_with(APP_ARMOR))
}

/// Reports fields that contradict the annotations they replaced.
pub(super) fn validate_match(annotations: &FieldRef<'_>, spec: &FieldRef<'_>) {
    if !annotations.map().is_some_and(have_profiles) {
        return;
    }
    let of_pod = spec.at(fields::SECURITY_CONTEXT);
    match_seccomp(
        &annotations.key(SECCOMP_OF_POD),
        &of_pod.at(fields::SECCOMP_PROFILE),
    );
    for container in spec::all_containers(spec) {
        let key = format!("{SECCOMP_OF_CONTAINER}{}", container.at(fields::NAME).str());
        match_seccomp(
            &annotations.key(&key),
            &container.at(fields::SECURITY_CONTEXT).at(fields::SECCOMP_PROFILE),
        );
    }
    if spec.at(fields::OS).at(fields::NAME).str() == "windows" {
        return;
    }
    for container in spec::all_containers(spec) {
        let key = format!("{APP_ARMOR}{}", container.at(fields::NAME).str());
        let app_armor_profile = container
            .at(fields::SECURITY_CONTEXT)
            .at(fields::APP_ARMOR_PROFILE);
        let meant = if app_armor_profile.is_set() {
            app_armor_profile.clone()
        } else {
            of_pod.at(fields::APP_ARMOR_PROFILE)
        };
        match_app_armor(
            &annotations.key(&key),
            &meant.with_errors(app_armor_profile.errors().clone()),
        );
    }
}

fn match_seccomp(annotation: &FieldRef<'_>, profile: &FieldRef<'_>) {
    if annotation.is_set() && profile.is_set() {
        let defaults = |text: &str| SECCOMP_DEFAULTS.contains(&text);
        match_profile("seccomp", annotation.str(), profile, defaults);
    }
}

fn match_app_armor(annotation: &FieldRef<'_>, profile: &FieldRef<'_>) {
    if annotation.is_set() && profile.is_set() {
        match_profile("apparmor", annotation.str(), profile, |text| {
            text == "runtime/default"
        });
    }
}

fn match_profile(what: &str, annotation: &str, profile: &FieldRef<'_>, is_default: fn(&str) -> bool) {
    let local = annotation.strip_prefix(LOCALHOST);
    let path = profile.at(fields::LOCALHOST_PROFILE);
    let same = match profile.at(fields::TYPE).str() {
        "Unconfined" => annotation == UNCONFINED,
        "RuntimeDefault" => is_default(annotation),
        "Localhost" => local.is_some(),
        _ => true,
    };
    if !same {
        let detail = format!("{what} type in annotation and field must match");
        profile.at(fields::TYPE).forbidden(&detail);
    } else if profile.at(fields::TYPE).str() == "Localhost" && path.find_str() != local {
        path.forbidden(&format!("{what} profile in annotation and field must match"));
    }
}

fn validate_seccomp(annotations: &FieldRef<'_>) {
    let of_pod = annotations.entries().filter(|(key, _)| *key == SECCOMP_OF_POD);
    let of_containers = annotations
        .entries()
        .filter(|(key, _)| key.starts_with(SECCOMP_OF_CONTAINER));
    for (key, profile) in of_pod.chain(of_containers) {
        let field = annotations.errors().at(key);
        match profile.str() {
            text if SECCOMP_DEFAULTS.contains(&text) || text == UNCONFINED => {}
            text => match text.strip_prefix(LOCALHOST) {
                Some(path) => spec::check_relative_path(path, &field),
                None => field.invalid(text, "must be a valid seccomp profile"),
            },
        }
    }
}

/// The tolerations annotation contains JSON.
fn validate_tolerations(annotations: &FieldRef<'_>, spec: &FieldRef<'_>) {
    let shape = spec
        .shape()
        .and_then(|shape| shape.member(fields::TOLERATIONS)?.shape())
        .expect("a pod spec has tolerations");
    let text = annotations.key(TOLERATIONS).str().as_bytes();
    let parsed = setpoint_codec::json::parse(text).map_err(|error| error.to_string());
    let mut items = match parsed {
        Ok(Tree::List(items)) => items,
        Ok(_) => Vec::new(),
        Err(problem) => return annotations.invalid_as(TOLERATIONS, &problem),
    };
    let field = annotations.errors().at(TOLERATIONS);
    for (at, item) in items.iter_mut().enumerate() {
        prune(shape, item);
        tolerations::validate_one(&FieldRef::new(item, shape, &field.index(at)));
    }
}

/// The AppArmor profile of an annotation, if it is valid.
pub(super) fn app_armor(annotation: &str) -> Option<Tree> {
    let kind = match annotation {
        UNCONFINED => "Unconfined",
        "runtime/default" => "RuntimeDefault",
        _ => "Localhost",
    };
    let mut profile = Tree::default();
    profile.set(&[fields::TYPE], kind);
    if kind == "Localhost" {
        let path = annotation.strip_prefix(LOCALHOST)?;
        if path.is_empty() {
            return None;
        }
        profile.set(&[fields::LOCALHOST_PROFILE], path);
    }
    Some(profile)
}
