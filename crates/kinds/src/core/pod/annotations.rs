//! Annotations that mean something to pods, most of them from before there were fields for it.

use setpoint_schema::{Tree, prune};

use crate::at::At;

use super::spec::{self, tolerations};

/// Marks a pod that a node's agent started by itself and only shows to the server.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
pub(super) const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// The name of the container follows.
pub(super) const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// The name of the container follows.
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_DEFAULTS: &[&str] = &["runtime/default", "docker/default"];
const UNCONFINED: &str = "unconfined";
const LOCALHOST: &str = "localhost/";

/// Reports annotations that cannot mean what they should.
pub(super) fn validate(annotations: &At<'_>, spec: &At<'_>, any_cost: bool) {
    if annotations.is_empty() {
        return;
    }
    let mirror = annotations.key(MIRROR);
    if mirror.is_set() && spec.at("nodeName").is_empty() {
        mirror.invalid("must set spec.nodeName if mirror pod annotation is set");
    }
    if !annotations.key(TOLERATIONS).is_empty() {
        validate_tolerations(annotations, spec);
    }
    if !any_cost && !is_deletion_cost(annotations) {
        annotations.key(DELETION_COST).invalid("must be a 32bit integer");
    }
    validate_seccomp(annotations);
    for (key, profile) in annotations.entries() {
        let Some(container) = key.strip_prefix(APP_ARMOR) else {
            continue;
        };
        let mut names = spec::all_containers(spec).map(|container| container.at("name").str());
        if !names.any(|name| name == container) {
            profile.invalid_as(container, "container not found");
        }
        let text = profile.str();
        let known = matches!(text, "" | "runtime/default" | UNCONFINED) || text.starts_with(LOCALHOST);
        if !known {
            profile.invalid(&format!("invalid AppArmor profile name: {text:?}"));
        }
    }
}

/// Whether what it costs to delete the pod, if it says so, is a number in its plain form.
pub(super) fn is_deletion_cost(annotations: &At<'_>) -> bool {
    let Some(cost) = annotations.key(DELETION_COST).find_str() else {
        return true;
    };
    let plain = cost == "0" || cost.starts_with(|first: char| first == '-' || ('1'..='9').contains(&first));
    plain && cost.parse::<i32>().is_ok()
}

/// Reports changes of annotations that stay as they are.
pub(super) fn validate_update(annotations: &At<'_>, old: &At<'_>) {
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

/// Reports fields that say something else than the annotations that stood for them.
pub(super) fn validate_match(annotations: &At<'_>, spec: &At<'_>) {
    if annotations.is_empty() {
        return;
    }
    let of_pod = spec.at("securityContext");
    match_seccomp(&annotations.key(SECCOMP_OF_POD), &of_pod.at("seccompProfile"));
    for container in spec::all_containers(spec) {
        let key = format!("{SECCOMP_OF_CONTAINER}{}", container.at("name").str());
        match_seccomp(
            &annotations.key(&key),
            &container.at("securityContext").at("seccompProfile"),
        );
    }
    if spec.at("os").at("name").str() == "windows" {
        return;
    }
    for container in spec::all_containers(spec) {
        let key = format!("{APP_ARMOR}{}", container.at("name").str());
        let own = container.at("securityContext").at("appArmorProfile");
        let meant = if own.is_set() {
            own.clone()
        } else {
            of_pod.at("appArmorProfile")
        };
        match_app_armor(&annotations.key(&key), &meant.reported_at(own.errors().clone()));
    }
}

fn match_seccomp(annotation: &At<'_>, profile: &At<'_>) {
    if annotation.is_set() && profile.is_set() {
        let defaults = |text: &str| SECCOMP_DEFAULTS.contains(&text);
        match_profile("seccomp", annotation.str(), profile, defaults);
    }
}

fn match_app_armor(annotation: &At<'_>, profile: &At<'_>) {
    if annotation.is_set() && profile.is_set() {
        match_profile("apparmor", annotation.str(), profile, |text| {
            text == "runtime/default"
        });
    }
}

fn match_profile(what: &str, annotation: &str, profile: &At<'_>, is_default: fn(&str) -> bool) {
    let local = annotation.strip_prefix(LOCALHOST);
    let path = profile.at("localhostProfile");
    let same = match profile.at("type").str() {
        "Unconfined" => annotation == UNCONFINED,
        "RuntimeDefault" => is_default(annotation),
        "Localhost" => local.is_some(),
        _ => true,
    };
    if !same {
        let detail = format!("{what} type in annotation and field must match");
        profile.at("type").forbidden(&detail);
    } else if profile.at("type").str() == "Localhost" && path.find_str() != local {
        path.forbidden(&format!("{what} profile in annotation and field must match"));
    }
}

fn validate_seccomp(annotations: &At<'_>) {
    let of_pod = annotations.entries().filter(|(key, _)| *key == SECCOMP_OF_POD);
    let of_containers = annotations
        .entries()
        .filter(|(key, _)| key.starts_with(SECCOMP_OF_CONTAINER));
    for (key, profile) in of_pod.chain(of_containers) {
        let place = annotations.errors().at(key);
        match profile.str() {
            text if SECCOMP_DEFAULTS.contains(&text) || text == UNCONFINED => {}
            text => match text.strip_prefix(LOCALHOST) {
                Some(path) => spec::check_descending(path, &place),
                None => place.invalid(text, "must be a valid seccomp profile"),
            },
        }
    }
}

/// Tolerations in an annotation are JSON.
fn validate_tolerations(annotations: &At<'_>, spec: &At<'_>) {
    let shape = spec
        .shape()
        .and_then(|shape| shape.member("tolerations")?.shape())
        .expect("a pod spec has tolerations");
    let text = annotations.key(TOLERATIONS).str().as_bytes();
    let parsed = setpoint_codec::json::parse(text).map_err(|error| error.to_string());
    let mut items = match parsed {
        Ok(Tree::List(items)) => items,
        Ok(_) => Vec::new(),
        Err(problem) => return annotations.invalid_as(TOLERATIONS, &problem),
    };
    let place = annotations.errors().at(TOLERATIONS);
    for (at, item) in items.iter_mut().enumerate() {
        prune(shape, item);
        tolerations::validate_one(&At::new(item, shape, &place.index(at)));
    }
}

/// The AppArmor profile that an annotation means, if it means one.
pub(super) fn app_armor(annotation: &str) -> Option<Tree> {
    let kind = match annotation {
        UNCONFINED => "Unconfined",
        "runtime/default" => "RuntimeDefault",
        _ => "Localhost",
    };
    let mut profile = Tree::default();
    profile.set(&["type"], kind);
    if kind == "Localhost" {
        let path = annotation.strip_prefix(LOCALHOST)?;
        if path.is_empty() {
            return None;
        }
        profile.set(&["localhostProfile"], path);
    }
    Some(profile)
}
