//! Defaults of pod specs.

use setpoint_schema::{Map, Tree};

use crate::shared::resources;

use super::image;

/// The default permission bits of mounted files, 0644.
const MODE: i32 = 0o644;
const TOKEN_SECONDS: i64 = 3600;

/// Sets the defaults of pods and templates.
pub(crate) fn set_defaults(spec: &mut Tree) {
    sync_service_account(spec);
    spec.set_default("dnsPolicy", "ClusterFirst");
    spec.set_default("restartPolicy", "Always");
    spec.set_default("schedulerName", "default-scheduler");
    spec.set_default("securityContext", Map::default());
    spec.set_default("terminationGracePeriodSeconds", 30);
    spec.items_mut("volumes").for_each(default_volume);
    spec.items_mut("initContainers").for_each(default_container);
    spec.items_mut("containers").for_each(default_container);
    spec.items_mut("ephemeralContainers")
        .for_each(default_any_container);
}

/// Sets the defaults of pods only: those of a template are set when a pod is created from it.
pub(crate) fn set_pod_defaults(spec: &mut Tree) {
    let grace = spec.get("terminationGracePeriodSeconds").and_then(Tree::as_i64);
    if grace.is_some_and(|seconds| seconds < 0) {
        spec.set(&["terminationGracePeriodSeconds"], 1);
    }
    spec.set_default("enableServiceLinks", true);
    let host_network = spec.get("hostNetwork").and_then(Tree::as_bool) == Some(true);
    for list in ["initContainers", "containers"] {
        for container in spec.items_mut(list) {
            if let Some(resources) = container.find_mut("resources") {
                resources::default_requests(resources);
            }
            if host_network {
                container.items_mut("ports").for_each(default_host_port);
            }
        }
    }
}

/// Keeps `serviceAccount` and `serviceAccountName` equal.
fn sync_service_account(spec: &mut Tree) {
    let name = spec
        .get("serviceAccountName")
        .or_else(|| spec.get("serviceAccount"));
    if let Some(name) = name.cloned() {
        spec.set(&["serviceAccountName"], name.clone());
        spec.set(&["serviceAccount"], name);
    }
}

fn default_host_port(port: &mut Tree) {
    if let Some(container_port) = port.get("containerPort").cloned() {
        port.set_default("hostPort", container_port);
    }
}

fn default_container(container: &mut Tree) {
    default_any_container(container);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.find_mut(probe) {
            default_probe(probe);
        }
    }
    drop_stop_signal(container);
    for handler in ["postStart", "preStop"] {
        if let Some(handler) = container.at_mut(&["lifecycle", handler]) {
            default_http(handler);
        }
    }
}

/// `ContainerStopSignals` is disabled.
fn drop_stop_signal(container: &mut Tree) {
    let Some(lifecycle) = container.find_mut("lifecycle") else {
        return;
    };
    let dropped = lifecycle.take(&["stopSignal"]).is_some();
    if dropped && lifecycle.as_map().is_some_and(Map::is_empty) {
        container.take(&["lifecycle"]);
    }
}

fn default_any_container(container: &mut Tree) {
    let policy = image::pull_policy(container.str_at(&["image"]).unwrap_or_default());
    container.set_default("imagePullPolicy", policy);
    container.set_default("terminationMessagePath", "/dev/termination-log");
    container.set_default("terminationMessagePolicy", "File");
    for variable in container.items_mut("env") {
        if let Some(source) = variable.find_mut("valueFrom") {
            default_field_ref(source);
        }
    }
}

fn default_probe(probe: &mut Tree) {
    probe.set_default("timeoutSeconds", 1);
    probe.set_default("periodSeconds", 10);
    probe.set_default("successThreshold", 1);
    probe.set_default("failureThreshold", 3);
    default_http(probe);
}

/// Defaults of the HTTP action of a probe or a lifecycle hook.
fn default_http(handler: &mut Tree) {
    if let Some(action) = handler.find_mut("httpGet") {
        action.set_default("path", "/");
        action.set_default("scheme", "HTTP");
    }
}

fn default_field_ref(source: &mut Tree) {
    if let Some(field) = source.find_mut("fieldRef") {
        field.set_default("apiVersion", "v1");
    }
}

fn default_volume(volume: &mut Tree) {
    // Every source is an optional field, so a volume with only a name has no source.
    let only_named = volume
        .as_map()
        .is_some_and(|map| map.keys().all(|key| key == "name"));
    if only_named {
        volume.set(&["emptyDir"], Map::default());
    }
    if let Some(image) = volume.find_mut("image") {
        let policy = image::pull_policy(image.str_at(&["reference"]).unwrap_or_default());
        image.set_default("pullPolicy", policy);
    }
    for files in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(files) = volume.find_mut(files) {
            files.set_default("defaultMode", MODE);
            files.items_mut("items").for_each(default_field_ref);
            files.items_mut("sources").for_each(default_projected);
        }
    }
    if let Some(path) = volume.find_mut("hostPath") {
        path.set_default("type", "");
    }
    if let Some(spec) = volume.at_mut(&["ephemeral", "volumeClaimTemplate", "spec"]) {
        spec.set_default("volumeMode", "Filesystem");
    }
}

fn default_projected(source: &mut Tree) {
    if let Some(token) = source.find_mut("serviceAccountToken") {
        token.set_default("expirationSeconds", TOKEN_SECONDS);
    }
    if let Some(api) = source.find_mut("downwardAPI") {
        api.items_mut("items").for_each(default_field_ref);
    }
}
