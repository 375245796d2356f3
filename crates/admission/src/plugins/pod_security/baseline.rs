//! The checks of the baseline level, which prevents known privilege escalations.

use std::collections::BTreeSet;

use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::meta;

use super::checks::{
    Setters, Violation, containers, containers_text, context, name, offenders, plural, quoted, violation,
};
use crate::review;

const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Safe sysctls, which are namespaced, and the Kubernetes version since when they are allowed.
const SYSCTLS: &[(&str, u32)] = &[
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];
const SELINUX_TYPES: &[(&str, u32)] = &[
    ("", 0),
    ("container_t", 0),
    ("container_init_t", 0),
    ("container_kvm_t", 0),
    ("container_engine_t", 31),
];
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

type Check = fn(&Tree, &Tree, u32) -> Option<Violation>;

/// The checks, by the names under which the restricted level replaces them.
const CHECKS: &[(&str, Check)] = &[
    ("appArmorProfile", |pod, spec, _| app_armor(pod, spec)),
    ("capabilities", |_, spec, _| capabilities(spec)),
    ("hostNamespaces", |_, spec, _| host_namespaces(spec)),
    ("hostPathVolumes", |_, spec, _| host_paths(spec)),
    ("hostPorts", |_, spec, _| host_ports(spec)),
    ("hostProbes", |_, spec, version| {
        (version >= 34).then(|| host_probes(spec))?
    }),
    ("privileged", |_, spec, _| privileged(spec)),
    ("procMount", |_, spec, version| {
        let relaxed = version >= 35 && has_user_namespace(spec);
        (!relaxed).then(|| proc_mount(spec))?
    }),
    ("seLinuxOptions", |_, spec, version| se_linux(spec, version)),
    ("seccompProfile", |_, spec, _| seccomp(spec)),
    ("sysctls", |_, spec, version| sysctls(spec, version)),
    ("windowsHostProcess", |_, spec, _| host_process(spec)),
];

/// The violations of the baseline level by a pod, without the replaced checks.
pub(super) fn violations(pod: &Tree, spec: &Tree, version: u32, replaced: &[&str]) -> Vec<Violation> {
    let checks = CHECKS.iter().filter(|(id, _)| !replaced.contains(id));
    checks
        .filter_map(|(_, check)| check(pod, spec, version))
        .collect()
}

/// Whether the pod has its own user namespace.
pub(super) fn has_user_namespace(spec: &Tree) -> bool {
    spec.get("hostUsers").and_then(Tree::as_bool) == Some(false)
}

fn app_armor(pod: &Tree, spec: &Tree) -> Option<Violation> {
    let allowed = |kind: &str| matches!(kind, "RuntimeDefault" | "Localhost");
    let mut setters = Setters::of(spec, ["appArmorProfile", "type"], allowed);
    let annotations = meta::find(pod, "annotations").and_then(Tree::as_map);
    let wrong: Vec<String> = annotations
        .into_iter()
        .flat_map(Map::iter)
        .filter(|(key, _)| key.starts_with(APP_ARMOR))
        .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
        .filter(|(_, value)| {
            !(value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/"))
        })
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    let mut values: Vec<String> = setters.values.iter().cloned().collect();
    if !wrong.is_empty() {
        setters
            .who
            .push(plural("annotation", "annotations", wrong.len()).to_owned());
        values.extend(wrong);
    }
    if setters.who.is_empty() {
        return None;
    }
    let reason = plural(
        "forbidden AppArmor profile",
        "forbidden AppArmor profiles",
        values.len(),
    );
    let detail = format!(
        "{} must not set AppArmor profile type to {}",
        setters.subjects(),
        quoted(&values)
    );
    violation(reason, detail)
}

fn capabilities(spec: &Tree) -> Option<Violation> {
    let (mut names, mut wrong) = (Vec::new(), BTreeSet::new());
    for container in containers(spec) {
        let own = added(container).filter(|capability| !CAPABILITIES.contains(capability));
        let own: Vec<&str> = own.collect();
        if !own.is_empty() {
            names.push(name(container));
            wrong.extend(own);
        }
    }
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not include {} in securityContext.capabilities.add",
        containers_text(&names),
        quoted(&wrong)
    );
    violation("non-default capabilities", detail)
}

/// The capabilities that a container adds.
pub(super) fn added(container: &Tree) -> impl Iterator<Item = &str> {
    let own = context(container, "capabilities").map(|own| own.items(fields::ADD));
    own.unwrap_or_default().iter().filter_map(Tree::as_str)
}

fn host_namespaces(spec: &Tree) -> Option<Violation> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let shared: Vec<String> = fields
        .filter(|field| review::bool_at(spec, &[field]))
        .map(|field| format!("{field}=true"))
        .collect();
    (!shared.is_empty()).then(|| violation("host namespaces", shared.join(", ")))?
}

fn host_paths(spec: &Tree) -> Option<Violation> {
    let volumes = spec.items(fields::VOLUMES).iter();
    let names: Vec<&str> = volumes
        .filter(|volume| review::has(volume, &["hostPath"]))
        .map(name)
        .collect();
    if names.is_empty() {
        return None;
    }
    let detail = format!("{} {}", plural("volume", "volumes", names.len()), quoted(&names));
    violation("hostPath volumes", detail)
}

fn host_ports(spec: &Tree) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let names = offenders(spec, |container| {
        container
            .items(fields::PORTS)
            .iter()
            .any(|port| review::int_at(port, &["hostPort"]) != 0)
    });
    for container in containers(spec) {
        let own = container
            .items(fields::PORTS)
            .iter()
            .map(|port| review::int_at(port, &["hostPort"]));
        ports.extend(own.filter(|port| *port != 0).map(|port| port.to_string()));
    }
    if names.is_empty() {
        return None;
    }
    let listed: Vec<String> = ports.into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        containers_text(&names),
        plural("uses", "use", names.len()),
        plural("hostPort", "hostPorts", listed.len()),
        listed.join(", ")
    );
    violation("hostPort", detail)
}

fn host_probes(spec: &Tree) -> Option<Violation> {
    let hosts = |container: &Tree| -> Vec<String> {
        let probes: [&[&str]; 5] = [
            &["livenessProbe"],
            &["readinessProbe"],
            &["startupProbe"],
            &["lifecycle", "postStart"],
            &["lifecycle", "preStop"],
        ];
        let handlers = probes.iter().filter_map(|path| container.at(path));
        let hosts = handlers.flat_map(|handler| {
            ["httpGet", "tcpSocket"]
                .iter()
                .filter_map(|field| handler.str_at(&[field, fields::HOST]))
                .collect::<Vec<_>>()
        });
        hosts.filter(|host| !host.is_empty()).map(str::to_owned).collect()
    };
    let mut names: Vec<&str> = offenders(spec, |container| !hosts(container).is_empty());
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return None;
    }
    let all: BTreeSet<String> = containers(spec).flat_map(hosts).collect();
    let detail = format!(
        "{} {} {} {}",
        containers_text(&names),
        plural("uses", "use", names.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", all.len()),
        quoted(&all)
    );
    violation("probe or lifecycle host", detail)
}

fn privileged(spec: &Tree) -> Option<Violation> {
    let names = offenders(spec, |container| {
        review::bool_at(container, &["securityContext", "privileged"])
    });
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.privileged=true",
        containers_text(&names)
    );
    violation("privileged", detail)
}

pub(super) fn proc_mount(spec: &Tree) -> Option<Violation> {
    let (mut names, mut kinds) = (Vec::new(), BTreeSet::new());
    for container in containers(spec) {
        let kind = context(container, "procMount").and_then(Tree::as_str);
        if let Some(kind) = kind.filter(|kind| *kind != "Default") {
            names.push(name(container));
            kinds.insert(kind);
        }
    }
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.procMount to {}",
        containers_text(&names),
        quoted(&kinds)
    );
    violation("procMount", detail)
}

fn se_linux(spec: &Tree, version: u32) -> Option<Violation> {
    let allowed = |kind: &str| {
        SELINUX_TYPES
            .iter()
            .any(|(own, since)| *own == kind && *since <= version)
    };
    let text = |object: &Tree, field: &str| {
        let options = context(object, "seLinuxOptions");
        options
            .and_then(|options| options.str_at(&[field]))
            .unwrap_or_default()
            .to_owned()
    };
    let wrong = |object: &Tree| {
        let (user, role) = (text(object, "user"), text(object, "role"));
        !allowed(&text(object, "type")) || !user.is_empty() || !role.is_empty()
    };
    let setters = Setters::matching(spec, wrong);
    if setters.who.is_empty() {
        return None;
    }
    let all = || std::iter::once(spec).chain(containers(spec));
    let types: BTreeSet<String> = all()
        .map(|object| text(object, "type"))
        .filter(|kind| !allowed(kind))
        .collect();
    let mut details = Vec::new();
    if !types.is_empty() {
        details.push(format!(
            "{} {}",
            plural("type", "types", types.len()),
            quoted(&types)
        ));
    }
    for field in ["user", "role"] {
        if all().any(|object| !text(object, field).is_empty()) {
            details.push(format!("{field} may not be set"));
        }
    }
    let detail = format!(
        "{} set forbidden securityContext.seLinuxOptions: {}",
        setters.subjects(),
        details.join("; ")
    );
    violation("seLinuxOptions", detail)
}

/// Whether a seccomp profile of this type is allowed.
pub(super) fn is_allowed_seccomp(kind: &str) -> bool {
    matches!(kind, "Localhost" | "RuntimeDefault")
}

pub(super) fn seccomp(spec: &Tree) -> Option<Violation> {
    let setters = Setters::of(spec, ["seccompProfile", "type"], is_allowed_seccomp);
    if setters.who.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.seccompProfile.type to {}",
        setters.subjects(),
        quoted(&setters.values)
    );
    violation("seccompProfile", detail)
}

fn sysctls(spec: &Tree, version: u32) -> Option<Violation> {
    let settings = context(spec, "sysctls")
        .and_then(Tree::as_list)
        .unwrap_or_default();
    let names = settings.iter().map(name);
    let known = |own: &str| {
        SYSCTLS
            .iter()
            .any(|(known, since)| *known == own && *since <= version)
    };
    let wrong: Vec<&str> = names.filter(|own| !known(own)).collect();
    (!wrong.is_empty()).then(|| violation("forbidden sysctls", wrong.join(", ")))?
}

fn host_process(spec: &Tree) -> Option<Violation> {
    let predicate =
        |object: &Tree| review::bool_at(object, &["securityContext", "windowsOptions", "hostProcess"]);
    let setters = Setters::matching(spec, predicate);
    if setters.who.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.windowsOptions.hostProcess=true",
        setters.subjects()
    );
    violation("hostProcess", detail)
}
