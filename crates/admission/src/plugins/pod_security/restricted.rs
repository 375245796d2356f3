//! The checks of the level that asks for good practice, besides those of the level below.

use std::collections::BTreeSet;

use setpoint_schema::{Map, Tree};

use super::baseline::{added, is_filtered, own_users, proc_mount, seccomp};
use super::checks::{Setters, Violation, containers, context, doers, name, named, plural, quoted, violation};
use crate::about;

/// The checks of the level below that are stricter here.
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

/// What a pod does that this level does not allow, besides what the level below does not.
pub(super) fn violations(spec: &Tree, version: u32) -> Vec<Violation> {
    let windows = version >= 25 && spec.str_at(&["os", "name"]) == Some("windows");
    let relaxed = version >= 35 && own_users(spec);
    let found = [
        (!windows).then(|| privilege_escalation(spec)).flatten(),
        (!windows).then(|| capabilities(spec)).flatten(),
        proc_mount(spec),
        volumes(spec),
        (!relaxed).then(|| root(spec)).flatten(),
        (!relaxed).then(|| root_user(spec)).flatten(),
        (!windows).then(|| filtered(spec)).flatten(),
    ];
    found.into_iter().flatten().collect()
}

fn privilege_escalation(spec: &Tree) -> Option<Violation> {
    let names = doers(spec, |container| {
        context(container, "allowPrivilegeEscalation").and_then(Tree::as_bool) != Some(false)
    });
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must set securityContext.allowPrivilegeEscalation=false",
        named(&names)
    );
    violation("allowPrivilegeEscalation != false", detail)
}

fn capabilities(spec: &Tree) -> Option<Violation> {
    let keeps = doers(spec, |container| {
        let own = context(container, "capabilities").map(|own| own.items("drop"));
        !own.unwrap_or_default()
            .iter()
            .any(|own| own.as_str() == Some("ALL"))
    });
    let forbidden = |container: &Tree| -> Vec<String> {
        let own = added(container).filter(|own| *own != "NET_BIND_SERVICE");
        own.map(str::to_owned).collect()
    };
    let adds = doers(spec, |container| !forbidden(container).is_empty());
    let wrong: BTreeSet<String> = containers(spec).flat_map(forbidden).collect();
    let mut told = Vec::new();
    if !keeps.is_empty() {
        told.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            named(&keeps)
        ));
    }
    if !adds.is_empty() {
        told.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            named(&adds),
            quoted(&wrong)
        ));
    }
    (!told.is_empty()).then(|| violation("unrestricted capabilities", told.join("; ")))?
}

fn volumes(spec: &Tree) -> Option<Violation> {
    let (mut names, mut kinds) = (Vec::new(), BTreeSet::new());
    for volume in spec.items("volumes") {
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

fn root(spec: &Tree) -> Option<Violation> {
    let says = |object: &Tree| context(object, "runAsNonRoot").and_then(Tree::as_bool);
    let reason = "runAsNonRoot != true";
    let setters = Setters::doing(spec, |object| says(object) == Some(false));
    if !setters.who.is_empty() {
        let detail = format!(
            "{} must not set securityContext.runAsNonRoot=false",
            setters.told()
        );
        return violation(reason, detail);
    }
    let silent = doers(spec, |container| {
        says(container).is_none() && says(spec) != Some(true)
    });
    if silent.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.runAsNonRoot=true",
        named(&silent)
    );
    violation(reason, detail)
}

fn root_user(spec: &Tree) -> Option<Violation> {
    let is_root = |object: &Tree| {
        let path = ["securityContext", "runAsUser"];
        about::has(object, &path) && about::int(object, &path) == 0
    };
    let setters = Setters::doing(spec, is_root);
    if setters.who.is_empty() {
        return None;
    }
    violation(
        "runAsUser=0",
        format!("{} must not set runAsUser=0", setters.told()),
    )
}

fn filtered(spec: &Tree) -> Option<Violation> {
    if let Some(wrong) = seccomp(spec) {
        return Some(wrong);
    }
    let says = |object: &Tree| {
        let profile = context(object, "seccompProfile");
        profile.map(|profile| is_filtered(profile.str_at(&["type"]).unwrap_or_default()))
    };
    let silent = doers(spec, |container| {
        says(container).is_none() && says(spec) != Some(true)
    });
    if silent.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        named(&silent)
    );
    violation("seccompProfile", detail)
}
