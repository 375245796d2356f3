//! What is filled in where a pod spec leaves it out.

use k8s_openapi::api::core::v1::{
    Container, EnvVar, EphemeralContainer, HTTPGetAction, Lifecycle, PodSpec, Probe, Volume,
};

use crate::shared::resources;

/// The permission bits of mounted files, 0644.
const MODE: i32 = 0o644;
const TOKEN_SECONDS: i64 = 3600;

/// For pods and templates.
pub(crate) fn fill(spec: &mut PodSpec) {
    let account = spec.service_account_name.clone().filter(|name| !name.is_empty());
    spec.service_account_name = account.or_else(|| spec.service_account.clone());
    spec.service_account.clone_from(&spec.service_account_name);
    text(&mut spec.dns_policy, "ClusterFirst");
    text(&mut spec.restart_policy, "Always");
    text(&mut spec.scheduler_name, "default-scheduler");
    spec.security_context.get_or_insert_default();
    spec.termination_grace_period_seconds.get_or_insert(30);
    for volume in spec.volumes.iter_mut().flatten() {
        fill_volume(volume);
    }
    let init = spec.init_containers.iter_mut().flatten();
    for container in init.chain(&mut spec.containers) {
        fill_container(container);
    }
    for container in spec.ephemeral_containers.iter_mut().flatten() {
        fill_ephemeral(container);
    }
}

/// For pods only: a template is filled in again when a pod is made of it.
pub(crate) fn fill_pod(spec: &mut PodSpec) {
    if spec
        .termination_grace_period_seconds
        .is_some_and(|seconds| seconds < 0)
    {
        spec.termination_grace_period_seconds = Some(1);
    }
    spec.enable_service_links.get_or_insert(true);
    let host_network = spec.host_network == Some(true);
    let init = spec.init_containers.iter_mut().flatten();
    for container in init.chain(&mut spec.containers) {
        if let Some(asked) = &mut container.resources {
            resources::default_requests(asked);
        }
        for port in container.ports.iter_mut().flatten() {
            if host_network && port.host_port.unwrap_or_default() == 0 {
                port.host_port = Some(port.container_port);
            }
        }
    }
}

fn fill_container(container: &mut Container) {
    let image = container.image.as_deref().unwrap_or_default();
    let policy = pull_policy(image);
    text(&mut container.image_pull_policy, policy);
    text(&mut container.termination_message_path, "/dev/termination-log");
    text(&mut container.termination_message_policy, "File");
    let probes = [
        &mut container.liveness_probe,
        &mut container.readiness_probe,
        &mut container.startup_probe,
    ];
    for probe in probes.into_iter().flatten() {
        fill_probe(probe);
    }
    if let Some(lifecycle) = &mut container.lifecycle {
        fill_lifecycle(lifecycle);
    }
    for variable in container.env.iter_mut().flatten() {
        fill_env(variable);
    }
}

fn fill_ephemeral(container: &mut EphemeralContainer) {
    let image = container.image.as_deref().unwrap_or_default();
    let policy = pull_policy(image);
    text(&mut container.image_pull_policy, policy);
    text(&mut container.termination_message_path, "/dev/termination-log");
    text(&mut container.termination_message_policy, "File");
    for variable in container.env.iter_mut().flatten() {
        fill_env(variable);
    }
}

fn fill_probe(probe: &mut Probe) {
    number(&mut probe.timeout_seconds, 1);
    number(&mut probe.period_seconds, 10);
    number(&mut probe.success_threshold, 1);
    number(&mut probe.failure_threshold, 3);
    if let Some(action) = &mut probe.http_get {
        fill_http(action);
    }
}

fn fill_lifecycle(lifecycle: &mut Lifecycle) {
    let handlers = [&mut lifecycle.post_start, &mut lifecycle.pre_stop];
    for handler in handlers.into_iter().flatten() {
        if let Some(action) = &mut handler.http_get {
            fill_http(action);
        }
    }
}

fn fill_http(action: &mut HTTPGetAction) {
    text(&mut action.path, "/");
    text(&mut action.scheme, "HTTP");
}

fn fill_env(variable: &mut EnvVar) {
    let source = variable.value_from.as_mut();
    if let Some(field) = source.and_then(|source| source.field_ref.as_mut()) {
        text(&mut field.api_version, "v1");
    }
}

fn fill_volume(volume: &mut Volume) {
    if has_no_source(volume) {
        volume.empty_dir = Some(Default::default());
    }
    if let Some(image) = &mut volume.image {
        let policy = pull_policy(image.reference.as_deref().unwrap_or_default());
        text(&mut image.pull_policy, policy);
    }
    if let Some(secret) = &mut volume.secret {
        secret.default_mode.get_or_insert(MODE);
    }
    if let Some(map) = &mut volume.config_map {
        map.default_mode.get_or_insert(MODE);
    }
    if let Some(path) = &mut volume.host_path {
        path.type_.get_or_insert_default();
    }
    if let Some(api) = &mut volume.downward_api {
        api.default_mode.get_or_insert(MODE);
        for file in api.items.iter_mut().flatten() {
            if let Some(field) = &mut file.field_ref {
                text(&mut field.api_version, "v1");
            }
        }
    }
    fill_projected(volume);
    fill_claim(volume);
}

fn fill_projected(volume: &mut Volume) {
    let Some(projected) = &mut volume.projected else {
        return;
    };
    projected.default_mode.get_or_insert(MODE);
    for source in projected.sources.iter_mut().flatten() {
        if let Some(token) = &mut source.service_account_token {
            token.expiration_seconds.get_or_insert(TOKEN_SECONDS);
        }
        let files = source
            .downward_api
            .iter_mut()
            .flat_map(|api| api.items.iter_mut().flatten());
        for file in files {
            if let Some(field) = &mut file.field_ref {
                text(&mut field.api_version, "v1");
            }
        }
    }
}

fn fill_claim(volume: &mut Volume) {
    let ephemeral = volume.ephemeral.as_mut();
    if let Some(claim) = ephemeral.and_then(|ephemeral| ephemeral.volume_claim_template.as_mut()) {
        text(&mut claim.spec.volume_mode, "Filesystem");
    }
}

/// Every other source is an optional member, so a volume that is only a name has none.
fn has_no_source(volume: &Volume) -> bool {
    let named = Volume {
        name: volume.name.clone(),
        ..Volume::default()
    };
    *volume == named
}

/// An image that may change under its name is pulled each time.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image
        .split_once('@')
        .map_or((image, ""), |(name, digest)| (name, digest));
    let last = name.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map(|(_, tag)| tag);
    match tag {
        Some("latest") => "Always",
        None if digest.is_empty() => "Always",
        _ => "IfNotPresent",
    }
}

fn text(field: &mut Option<String>, value: &str) {
    if field.as_ref().is_none_or(String::is_empty) {
        *field = Some(value.to_owned());
    }
}

fn number(field: &mut Option<i32>, value: i32) {
    if field.unwrap_or_default() == 0 {
        *field = Some(value);
    }
}
