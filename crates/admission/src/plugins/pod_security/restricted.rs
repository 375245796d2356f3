//! The checks of the restricted level, besides those of the baseline level.

use std::collections::BTreeSet;

use setpoint_schema::{Map, Tree, fields};

use super::baseline::{added, has_user_namespace, is_allowed_seccomp, proc_mount, seccomp};
use super::checks::{
    Setters, Violation, containers, containers_text, context, name, offenders, plural, quoted, violation,
};
use crate::review;

/// The checks of the baseline level that are stricter here.
pub(super) const REPLACED: &[&str] = &["capabilities", "hostPathVolumes", "procMount", "seccompProfile"];
const VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The violations of the restricted level by a pod, besides those of the baseline level.
pub(super) fn violations(spec: &Tree, version: u32) -> Vec<Violation> {
    let windows = version >= 25 && spec.str_at(&[fields::OS, fields::NAME]) == Some("windows");
    let relaxed = version >= 35 && has_user_namespace(spec);
    let found = [
        (!windows).then(|| privilege_escalation(spec)).flatten(),
        (!windows).then(|| capabilities(spec)).flatten(),
        proc_mount(spec),
        volumes(spec),
        (!relaxed).then(|| run_as_non_root(spec)).flatten(),
        (!relaxed).then(|| run_as_user(spec)).flatten(),
        (!windows).then(|| seccomp_profile(spec)).flatten(),
    ];
    found.into_iter().flatten().collect()
}

fn privilege_escalation(spec: &Tree) -> Option<Violation> {
    let names = offenders(spec, |container| {
        context(container, "allowPrivilegeEscalation").and_then(Tree::as_bool) != Some(false)
    });
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must set securityContext.allowPrivilegeEscalation=false",
        containers_text(&names)
    );
    violation("allowPrivilegeEscalation != false", detail)
}

fn capabilities(spec: &Tree) -> Option<Violation> {
    let keeps = offenders(spec, |container| {
        let own = context(container, "capabilities").map(|own| own.items(fields::DROP));
        !own.unwrap_or_default()
            .iter()
            .any(|own| own.as_str() == Some("ALL"))
    });
    let forbidden = |container: &Tree| -> Vec<String> {
        let own = added(container).filter(|own| *own != "NET_BIND_SERVICE");
        own.map(str::to_owned).collect()
    };
    let adds = offenders(spec, |container| !forbidden(container).is_empty());
    let wrong: BTreeSet<String> = containers(spec).flat_map(forbidden).collect();
    let mut details = Vec::new();
    if !keeps.is_empty() {
        details.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            containers_text(&keeps)
        ));
    }
    if !adds.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers_text(&adds),
            quoted(&wrong)
        ));
    }
    (!details.is_empty()).then(|| violation("unrestricted capabilities", details.join("; ")))?
}

fn volumes(spec: &Tree) -> Option<Violation> {
    let (mut names, mut kinds) = (Vec::new(), BTreeSet::new());
    for volume in spec.items(fields::VOLUMES) {
        let sources = volume.as_map().into_iter().flat_map(Map::keys);
        let sources: Vec<&str> = sources.filter(|field| *field != "name").collect();
        if !sources.iter().any(|source| VOLUMES.contains(source)) {
            names.push(name(volume));
            kinds.insert(sources.first().copied().unwrap_or("unknown"));
        }
    }
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", names.len()),
        quoted(&names),
        plural("uses", "use", names.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted(&kinds)
    );
    violation("restricted volume types", detail)
}

fn run_as_non_root(spec: &Tree) -> Option<Violation> {
    let setting = |object: &Tree| context(object, "runAsNonRoot").and_then(Tree::as_bool);
    let reason = "runAsNonRoot != true";
    let setters = Setters::matching(spec, |object| setting(object) == Some(false));
    if !setters.who.is_empty() {
        let detail = format!(
            "{} must not set securityContext.runAsNonRoot=false",
            setters.subjects()
        );
        return violation(reason, detail);
    }
    let unset = offenders(spec, |container| {
        setting(container).is_none() && setting(spec) != Some(true)
    });
    if unset.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.runAsNonRoot=true",
        containers_text(&unset)
    );
    violation(reason, detail)
}

fn run_as_user(spec: &Tree) -> Option<Violation> {
    let is_root = |object: &Tree| {
        let path = ["securityContext", "runAsUser"];
        review::has(object, &path) && review::int_at(object, &path) == 0
    };
    let setters = Setters::matching(spec, is_root);
    if setters.who.is_empty() {
        return None;
    }
    violation(
        "runAsUser=0",
        format!("{} must not set runAsUser=0", setters.subjects()),
    )
}

fn seccomp_profile(spec: &Tree) -> Option<Violation> {
    if let Some(wrong) = seccomp(spec) {
        return Some(wrong);
    }
    let setting = |object: &Tree| {
        let profile = context(object, "seccompProfile");
        profile.map(|profile| is_allowed_seccomp(profile.str_at(&[fields::TYPE]).unwrap_or_default()))
    };
    let unset = offenders(spec, |container| {
        setting(container).is_none() && setting(spec) != Some(true)
    });
    if unset.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        containers_text(&unset)
    );
    violation("seccompProfile", detail)
}
