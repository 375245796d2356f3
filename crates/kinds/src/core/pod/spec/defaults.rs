//! Defaults of pod specs.

use setpoint_schema::{Map, Tree, fields};

use crate::shared::resources;

use super::image;

/// The default permission bits of mounted files, 0644.
const MODE: i32 = 0o644;
const TOKEN_SECONDS: i64 = 3600;

/// Sets the defaults of pods and templates.
pub(crate) fn set_defaults(spec: &mut Tree) {
    sync_service_account(spec);
    spec.set_default(fields::DNS_POLICY, "ClusterFirst");
    spec.set_default(fields::RESTART_POLICY, "Always");
    spec.set_default(fields::SCHEDULER_NAME, "default-scheduler");
    spec.set_default(fields::SECURITY_CONTEXT, Map::default());
    spec.set_default(fields::TERMINATION_GRACE_PERIOD_SECONDS, 30);
    spec.items_mut(fields::VOLUMES).for_each(default_volume);
    spec.items_mut(fields::INIT_CONTAINERS)
        .for_each(default_container);
    spec.items_mut(fields::CONTAINERS).for_each(default_container);
    spec.items_mut(fields::EPHEMERAL_CONTAINERS)
        .for_each(default_any_container);
}

/// Sets the defaults of pods only: those of a template are set when a pod is created from it.
pub(crate) fn set_pod_defaults(spec: &mut Tree) {
    let grace = spec
        .get(fields::TERMINATION_GRACE_PERIOD_SECONDS)
        .and_then(Tree::as_i64);
    if grace.is_some_and(|seconds| seconds < 0) {
        spec.set(&[fields::TERMINATION_GRACE_PERIOD_SECONDS], 1);
    }
    spec.set_default(fields::ENABLE_SERVICE_LINKS, true);
    let host_network = spec.get(fields::HOST_NETWORK).and_then(Tree::as_bool) == Some(true);
    for list in [fields::INIT_CONTAINERS, fields::CONTAINERS] {
        for container in spec.items_mut(list) {
            if let Some(resources) = container.find_mut(fields::RESOURCES) {
                resources::default_requests(resources);
            }
            if host_network {
                container.items_mut(fields::PORTS).for_each(default_host_port);
            }
        }
    }
}

/// Keeps `serviceAccount` and `serviceAccountName` equal.
fn sync_service_account(spec: &mut Tree) {
    let name = spec
        .get(fields::SERVICE_ACCOUNT_NAME)
        .or_else(|| spec.get(fields::SERVICE_ACCOUNT));
    if let Some(name) = name.cloned() {
        spec.set(&[fields::SERVICE_ACCOUNT_NAME], name.clone());
        spec.set(&[fields::SERVICE_ACCOUNT], name);
    }
}

fn default_host_port(port: &mut Tree) {
    if let Some(container_port) = port.get(fields::CONTAINER_PORT).cloned() {
        port.set_default(fields::HOST_PORT, container_port);
    }
}

fn default_container(container: &mut Tree) {
    default_any_container(container);
    for probe in [
        fields::LIVENESS_PROBE,
        fields::READINESS_PROBE,
        fields::STARTUP_PROBE,
    ] {
        if let Some(probe) = container.find_mut(probe) {
            default_probe(probe);
        }
    }
    drop_stop_signal(container);
    for handler in [fields::POST_START, fields::PRE_STOP] {
        if let Some(handler) = container.at_mut(&[fields::LIFECYCLE, handler]) {
            default_http(handler);
        }
    }
}

/// `ContainerStopSignals` is disabled.
fn drop_stop_signal(container: &mut Tree) {
    let Some(lifecycle) = container.find_mut(fields::LIFECYCLE) else {
        return;
    };
    let dropped = lifecycle.take(&[fields::STOP_SIGNAL]).is_some();
    if dropped && lifecycle.as_map().is_some_and(Map::is_empty) {
        container.take(&[fields::LIFECYCLE]);
    }
}

fn default_any_container(container: &mut Tree) {
    let policy = image::pull_policy(container.str_at(&[fields::IMAGE]).unwrap_or_default());
    container.set_default(fields::IMAGE_PULL_POLICY, policy);
    container.set_default(fields::TERMINATION_MESSAGE_PATH, "/dev/termination-log");
    container.set_default(fields::TERMINATION_MESSAGE_POLICY, "File");
    for variable in container.items_mut(fields::ENV) {
        if let Some(source) = variable.find_mut(fields::VALUE_FROM) {
            default_field_ref(source);
        }
    }
}

fn default_probe(probe: &mut Tree) {
    probe.set_default(fields::TIMEOUT_SECONDS, 1);
    probe.set_default(fields::PERIOD_SECONDS, 10);
    probe.set_default(fields::SUCCESS_THRESHOLD, 1);
    probe.set_default(fields::FAILURE_THRESHOLD, 3);
    default_http(probe);
}

/// Defaults of the HTTP action of a probe or a lifecycle hook.
fn default_http(handler: &mut Tree) {
    if let Some(action) = handler.find_mut(fields::HTTP_GET) {
        action.set_default(fields::PATH, "/");
        action.set_default(fields::SCHEME, "HTTP");
    }
}

fn default_field_ref(source: &mut Tree) {
    if let Some(field) = source.find_mut(fields::FIELD_REF) {
        field.set_default(fields::API_VERSION, "v1");
    }
}

fn default_volume(volume: &mut Tree) {
    // Every source is an optional field, so a volume with only a name has no source.
    let only_named = volume
        .as_map()
        .is_some_and(|map| map.keys().all(|key| key == fields::NAME));
    if only_named {
        volume.set(&[fields::EMPTY_DIR], Map::default());
    }
    if let Some(image) = volume.find_mut(fields::IMAGE) {
        let policy = image::pull_policy(image.str_at(&[fields::REFERENCE]).unwrap_or_default());
        image.set_default(fields::PULL_POLICY, policy);
    }
    for files in [
        fields::SECRET,
        fields::CONFIG_MAP,
        fields::DOWNWARD_API,
        fields::PROJECTED,
    ] {
        if let Some(files) = volume.find_mut(files) {
            files.set_default(fields::DEFAULT_MODE, MODE);
            files.items_mut(fields::ITEMS).for_each(default_field_ref);
            files.items_mut(fields::SOURCES).for_each(default_projected);
        }
    }
    if let Some(path) = volume.find_mut(fields::HOST_PATH) {
        path.set_default(fields::TYPE, "");
    }
    if let Some(spec) = volume.at_mut(&[fields::EPHEMERAL, fields::VOLUME_CLAIM_TEMPLATE, fields::SPEC]) {
        spec.set_default(fields::VOLUME_MODE, "Filesystem");
    }
}

fn default_projected(source: &mut Tree) {
    if let Some(token) = source.find_mut(fields::SERVICE_ACCOUNT_TOKEN) {
        token.set_default(fields::EXPIRATION_SECONDS, TOKEN_SECONDS);
    }
    if let Some(api) = source.find_mut(fields::DOWNWARD_API) {
        api.items_mut(fields::ITEMS).for_each(default_field_ref);
    }
}
