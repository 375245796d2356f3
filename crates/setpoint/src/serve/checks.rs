//! The checks of `/livez` and `/readyz`.

use std::sync::Arc;

use setpoint_apiserver::health::Check;
use setpoint_encryption::Encryption;
use setpoint_registry::Registry;
use setpoint_runtime::Caches;
use setpoint_store::Store;
use tokio_util::sync::CancellationToken;

use crate::args::Up;

/// Kubernetes' post-start hooks, under the names that probes request. Here they are one step: all of them pass once the
/// bootstrap objects exist.
const POST_START_HOOKS: [&str; 22] = [
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-readiness",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
];

/// All checks, under Kubernetes' names.
pub(super) fn all(registry: &Arc<Registry>, stop: &CancellationToken) -> Vec<Check> {
    let (disk, caches, stop) = (registry.store().clone(), registry.clone(), stop.clone());
    let mut checks = vec![Check::live("ping", || Ok(())), Check::live("log", || Ok(()))];
    checks.extend(registry.stores().enumerate().map(of_store));
    checks.extend([
        // A restart would not help a full disk, so this is no check of liveness.
        Check::ready("storage-space", move || {
            disk.check_space().map_err(|error| error.to_string())
        }),
        Check::ready("informer-sync", move || synced(&caches)),
    ]);
    checks.extend(POST_START_HOOKS.map(|name| {
        let registry = registry.clone();
        Check::live(name, move || started(&registry))
    }));
    checks.push(Check::ready("shutdown", move || match stop.is_cancelled() {
        true => Err("the server is stopping".to_owned()),
        false => Ok(()),
    }));
    checks
}

/// The check of a store: of the default one, or of one that `--etcd-servers-overrides` names.
fn of_store((index, store): (usize, &Store)) -> Check {
    let store = store.clone();
    let writable = move || store.check_writable().map_err(|error| error.to_string());
    match index.checked_sub(1) {
        None => Check::live("etcd", writable),
        Some(number) => Check::live(format!("etcd-override-{number}"), writable),
    }
}

/// The check of KMS plugins, if objects are encrypted.
pub(super) fn of_encryption(args: &Up, encryption: &Arc<Encryption>) -> Vec<Check> {
    let is_configured = args.encryption_flags.encryption_provider_config.is_some();
    let encryption = encryption.clone();
    let check = Check::ready("kms-providers", move || encryption.check_health());
    is_configured.then_some(check).into_iter().collect()
}

fn started(registry: &Registry) -> Result<(), String> {
    match registry.is_started() {
        true => Ok(()),
        false => Err("the bootstrap objects do not exist yet".to_owned()),
    }
}

fn synced(registry: &Registry) -> Result<(), String> {
    let kinds = registry.kinds();
    for kind in kinds.iter().filter(|kind| kind.info().rules.resource.stored) {
        let resource = kind.info().storage.group_resource();
        if registry.cache(&resource).is_none_or(|cache| !cache.is_synced()) {
            return Err(format!("{resource} not synced"));
        }
    }
    Ok(())
}
