//! What is filled in where a pod spec leaves it out.

use setpoint_schema::{Map, Tree};

use crate::shared::resources;

use super::image;

/// The permission bits of mounted files, 0644.
const MODE: i32 = 0o644;
const TOKEN_SECONDS: i64 = 3600;

/// For pods and templates.
pub(crate) fn fill(spec: &mut Tree) {
    agree_on_account(spec);
    spec.fill("dnsPolicy", "ClusterFirst");
    spec.fill("restartPolicy", "Always");
    spec.fill("schedulerName", "default-scheduler");
    spec.fill("securityContext", Map::default());
    spec.fill("terminationGracePeriodSeconds", 30);
    spec.items_mut("volumes").for_each(fill_volume);
    spec.items_mut("initContainers").for_each(fill_container);
    spec.items_mut("containers").for_each(fill_container);
    spec.items_mut("ephemeralContainers").for_each(fill_any_container);
}

/// For pods only: a template is filled in again when a pod is made of it.
pub(crate) fn fill_pod(spec: &mut Tree) {
    let grace = spec.get("terminationGracePeriodSeconds").and_then(Tree::as_i64);
    if grace.is_some_and(|seconds| seconds < 0) {
        spec.set(&["terminationGracePeriodSeconds"], 1);
    }
    spec.fill("enableServiceLinks", true);
    let host_network = spec.get("hostNetwork").and_then(Tree::as_bool) == Some(true);
    for list in ["initContainers", "containers"] {
        for container in spec.items_mut(list) {
            if let Some(asked) = container.find_mut("resources") {
                resources::default_requests(asked);
            }
            if host_network {
                container.items_mut("ports").for_each(fill_host_port);
            }
        }
    }
}

/// The old name of the field and the new one say the same.
fn agree_on_account(spec: &mut Tree) {
    let name = spec
        .get("serviceAccountName")
        .or_else(|| spec.get("serviceAccount"));
    if let Some(name) = name.cloned() {
        spec.set(&["serviceAccountName"], name.clone());
        spec.set(&["serviceAccount"], name);
    }
}

fn fill_host_port(port: &mut Tree) {
    if let Some(own) = port.get("containerPort").cloned() {
        port.fill("hostPort", own);
    }
}

fn fill_container(container: &mut Tree) {
    fill_any_container(container);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.find_mut(probe) {
            fill_probe(probe);
        }
    }
    drop_stop_signal(container);
    for handler in ["postStart", "preStop"] {
        if let Some(handler) = container.at_mut(&["lifecycle", handler]) {
            fill_http(handler);
        }
    }
}

/// Stop signals are behind a feature gate that is off.
fn drop_stop_signal(container: &mut Tree) {
    let Some(lifecycle) = container.find_mut("lifecycle") else {
        return;
    };
    let dropped = lifecycle.take(&["stopSignal"]).is_some();
    if dropped && lifecycle.as_map().is_some_and(Map::is_empty) {
        container.take(&["lifecycle"]);
    }
}

fn fill_any_container(container: &mut Tree) {
    let policy = image::pull_policy(container.str_at(&["image"]).unwrap_or_default());
    container.fill("imagePullPolicy", policy);
    container.fill("terminationMessagePath", "/dev/termination-log");
    container.fill("terminationMessagePolicy", "File");
    for variable in container.items_mut("env") {
        if let Some(source) = variable.find_mut("valueFrom") {
            fill_field_ref(source);
        }
    }
}

fn fill_probe(probe: &mut Tree) {
    probe.fill("timeoutSeconds", 1);
    probe.fill("periodSeconds", 10);
    probe.fill("successThreshold", 1);
    probe.fill("failureThreshold", 3);
    fill_http(probe);
}

/// A probe or a lifecycle handler may ask over HTTP.
fn fill_http(handler: &mut Tree) {
    if let Some(action) = handler.find_mut("httpGet") {
        action.fill("path", "/");
        action.fill("scheme", "HTTP");
    }
}

fn fill_field_ref(source: &mut Tree) {
    if let Some(field) = source.find_mut("fieldRef") {
        field.fill("apiVersion", "v1");
    }
}

fn fill_volume(volume: &mut Tree) {
    // Every source is an optional member, so a volume that is only a name has none.
    let only_named = volume
        .as_map()
        .is_some_and(|map| map.keys().all(|key| key == "name"));
    if only_named {
        volume.set(&["emptyDir"], Map::default());
    }
    if let Some(image) = volume.find_mut("image") {
        let policy = image::pull_policy(image.str_at(&["reference"]).unwrap_or_default());
        image.fill("pullPolicy", policy);
    }
    for files in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(files) = volume.find_mut(files) {
            files.fill("defaultMode", MODE);
            files.items_mut("items").for_each(fill_field_ref);
            files.items_mut("sources").for_each(fill_projected);
        }
    }
    if let Some(path) = volume.find_mut("hostPath") {
        path.fill("type", "");
    }
    if let Some(spec) = volume.at_mut(&["ephemeral", "volumeClaimTemplate", "spec"]) {
        spec.fill("volumeMode", "Filesystem");
    }
}

fn fill_projected(source: &mut Tree) {
    if let Some(token) = source.find_mut("serviceAccountToken") {
        token.fill("expirationSeconds", TOKEN_SECONDS);
    }
    if let Some(api) = source.find_mut("downwardAPI") {
        api.items_mut("items").for_each(fill_field_ref);
    }
}
