//! Cleans up automatically generated token Secrets that have not been used for a year: first they are labeled as
//! invalid, and a year later deleted. The start of the tracking is in a ConfigMap; without it nothing is done.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use serde_json::{Value, json};
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Clock, Key, Status, Stored};
use setpoint_runtime::{Client, Context, Error, Lister, Object, Patch};
use tokio_util::sync::CancellationToken;

use crate::serviceaccount_tokens::legacy_token_tracking::{
    KUBE_SYSTEM, LAST_USED, TRACKING_MAP, day, tracking_start,
};
use crate::serviceaccount_tokens::secret::{Account, TokenSecret, is_token};
use crate::{Config, periodic};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "legacy-serviceaccount-token-cleaner-controller";

const PERIOD: Duration = Duration::from_secs(24 * 3600);
/// How long a token may be unused before it is labeled as invalid, and labeled before it is deleted.
const UNUSED_FOR: SignedDuration = SignedDuration::from_hours(365 * 24);
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// Runs the controller until stopped.
pub async fn run(context: Context, _config: Config, stop: CancellationToken) -> Result<(), Error> {
    let cleaner = Cleaner {
        secrets: context.lister()?,
        accounts: context.lister()?,
        pods: context.lister()?,
        maps: context.lister()?,
        client: context.client.clone(),
        clock: context.clock.clone(),
    };
    let caches = [
        cleaner.secrets.cache(),
        cleaner.accounts.cache(),
        cleaner.pods.cache(),
        cleaner.maps.cache(),
    ];
    for cache in caches {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = cache.synced() => {}
        }
    }
    periodic::every(PERIOD, &*context.clock, &stop, || cleaner.clean()).await;
    Ok(())
}

#[derive(Debug)]
struct Cleaner {
    secrets: Lister<Secret>,
    accounts: Lister<ServiceAccount>,
    pods: Lister<Pod>,
    maps: Lister<ConfigMap>,
    client: Client,
    clock: Arc<dyn Clock>,
}

/// What to do with a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CleanupAction {
    Keep,
    Mark,
    Delete,
}

impl Cleaner {
    /// One pass over all Secrets. What fails is tried again in the next.
    async fn clean(&self) {
        let now = self.clock.now();
        if !self.is_tracked_long_enough(now) {
            return;
        }
        let mut used = HashMap::new();
        for object in self.secrets.list() {
            let cleanup_action = cleanup_action(&object, now);
            if cleanup_action == CleanupAction::Keep || !self.is_automatic(&object) {
                continue;
            }
            let namespace = object.key().namespace();
            let names = used
                .entry(namespace.to_owned())
                .or_insert_with(|| self.used_by_pods(namespace));
            if names.contains(object.key().name()) {
                continue;
            }
            let done = match cleanup_action {
                CleanupAction::Mark => self.mark(&object, day(now)).await,
                _ => self.delete(&object).await,
            };
            if let Err(status) = done {
                tracing::warn!(secret = ?object.key(), %status, "cannot clean up an unused token secret");
            }
        }
    }

    fn is_tracked_long_enough(&self, now: Timestamp) -> bool {
        let map = self.maps.find(&Key::new(KUBE_SYSTEM, TRACKING_MAP));
        let since = map.and_then(|map| tracking_start(map.stored()));
        let began = since.and_then(|since| since.checked_add(1.day()).ok());
        let began = began.and_then(|day| day.to_zoned(TimeZone::UTC).ok());
        began.is_some_and(|began| now.duration_since(began.timestamp()) >= UNUSED_FOR)
    }

    /// Whether its ServiceAccount references it, as it does for automatically generated tokens.
    fn is_automatic(&self, object: &Stored) -> bool {
        let Ok(secret) = object.decode::<TokenSecret>() else {
            return false;
        };
        let account = self
            .accounts
            .find(&Key::new(object.key().namespace(), secret.account()));
        account.is_some_and(|account| {
            let names = account
                .decode::<Account>()
                .is_ok_and(|own| own.names(object.key().name()));
            secret.is_of(account.uid()) && names
        })
    }

    /// The Secrets that pods of a namespace use in any field.
    fn used_by_pods(&self, namespace: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for pod in self.pods.in_namespace(namespace) {
            if let Ok(body) = pod.decode::<Value>() {
                secret_names(&body["spec"], &mut names);
            }
        }
        names
    }

    async fn mark(&self, object: &Stored, day: Date) -> Result<(), Status> {
        let labels = json!({INVALID_SINCE: day.to_string()});
        let patch = Patch::merge(&json!({"metadata": {"uid": object.uid(), "labels": labels}}))?;
        let handle = self.client.dynamic(Secret::resource(), object.key().namespace());
        handle.patch(object.key().name(), &patch).await.map(drop)
    }

    async fn delete(&self, object: &Stored) -> Result<(), Status> {
        let options = DeleteOptions {
            resource_version: Some(object.resource_version().to_string()),
            ..DeleteOptions::default()
        };
        let handle = self.client.dynamic(Secret::resource(), object.key().namespace());
        match handle.delete(object.key().name(), options).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            deleted => deleted.map(drop),
        }
    }
}

/// What to do with an automatically generated Secret that no pod uses.
fn cleanup_action(object: &Stored, now: Timestamp) -> CleanupAction {
    let Ok(secret) = object.decode::<TokenSecret>() else {
        return CleanupAction::Keep;
    };
    let limit = now - UNUSED_FOR;
    let is_new = secret
        .metadata
        .creation_timestamp
        .is_none_or(|created| created >= limit);
    if !is_token(object) || object.header().deleting || is_new {
        return CleanupAction::Keep;
    }
    let limit = day(limit);
    // An invalid date may be any date.
    let last_used = object.label(LAST_USED).map(str::parse::<Date>);
    if last_used.is_some_and(|used| used.map_or(true, |used| used >= limit)) {
        return CleanupAction::Keep;
    }
    match object.label(INVALID_SINCE).unwrap_or_default().parse::<Date>() {
        Err(_) => CleanupAction::Mark,
        Ok(since) if since >= limit => CleanupAction::Keep,
        Ok(_) => CleanupAction::Delete,
    }
}

/// Collects the names in all fields of a pod spec that reference Secrets.
fn secret_names(body: &Value, names: &mut BTreeSet<String>) {
    match body {
        Value::Array(items) => items.iter().for_each(|item| secret_names(item, names)),
        Value::Object(fields) => {
            for (name, value) in fields {
                let found = match name.as_str() {
                    "secretName" => value.as_str(),
                    "secretRef" | "secretKeyRef" | "secret" => value["name"].as_str(),
                    _ => None,
                };
                names.extend(found.map(str::to_owned));
                if name == "imagePullSecrets" {
                    let own = value.as_array().into_iter().flatten();
                    names.extend(own.filter_map(|secret| secret["name"].as_str().map(str::to_owned)));
                }
                secret_names(value, names);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::Header;
    use setpoint_testkit::{Cluster, Component};

    use super::*;

    #[track_caller]
    fn check(created: &str, labels: &[(&str, &str)], expected: CleanupAction) {
        let mut header = Header::new(Key::new("default", "token"));
        header.fields = [("type".into(), crate::serviceaccount_tokens::secret::TYPE.into())].into();
        let mut own: Vec<_> = labels
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        own.sort();
        header.labels = own.into();
        let json = json!({"metadata": {"creationTimestamp": created}}).to_string();
        let object = Stored::new(header, json.into(), 1);
        assert_eq!(
            cleanup_action(&object, "2026-06-01T12:00:00Z".parse().unwrap()),
            expected
        );
    }

    #[test]
    fn an_unused_token_is_marked_and_deleted_a_year_later() {
        let (old, new) = ("2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
        check(new, &[], CleanupAction::Keep);
        check(old, &[], CleanupAction::Mark);
        check(old, &[(LAST_USED, "2026-01-01")], CleanupAction::Keep);
        check(old, &[(LAST_USED, "2024-01-01")], CleanupAction::Mark);
        check(old, &[(LAST_USED, "lately")], CleanupAction::Keep);
        check(old, &[(INVALID_SINCE, "2026-01-01")], CleanupAction::Keep);
        check(old, &[(INVALID_SINCE, "2025-01-01")], CleanupAction::Delete);
        check(
            old,
            &[(INVALID_SINCE, "2025-01-01"), (LAST_USED, "2026-05-01")],
            CleanupAction::Keep,
        );
    }

    #[test]
    fn secrets_are_found_in_all_fields_of_a_pod() {
        let spec = json!({
            "imagePullSecrets": [{"name": "a"}],
            "volumes": [{"secret": {"secretName": "b"}}, {"projected": {"sources": [{"secret": {"name": "c"}}]}}],
            "containers": [{"envFrom": [{"secretRef": {"name": "d"}}],
                "env": [{"valueFrom": {"secretKeyRef": {"name": "e", "key": "x"}}}]}],
        });
        let mut names = BTreeSet::new();
        secret_names(&spec, &mut names);
        assert_eq!(Vec::from_iter(names), ["a", "b", "c", "d", "e"]);
    }

    fn token(cluster: &Cluster) -> Option<Secret> {
        cluster.find("robot-token")
    }

    #[tokio::test]
    async fn an_unused_token_is_deleted_in_two_steps() {
        let cluster = Cluster::start().await;
        let client = cluster.client("test");
        let since = day(cluster.clock.now()).to_string();
        let map = json!({"metadata": {"name": TRACKING_MAP}, "data": {"since": since}});
        let account = json!({"metadata": {"name": "robot"}, "secrets": [{"name": "robot-token"}]});
        let account_name = "kubernetes.io/service-account.name";
        let secret = json!({
            "metadata": {"name": "robot-token", "annotations": {account_name: "robot"}},
            "type": crate::serviceaccount_tokens::secret::TYPE,
        });
        let rows = [
            (ConfigMap::resource(), KUBE_SYSTEM, map),
            (ServiceAccount::resource(), "default", account),
            (Secret::resource(), "default", secret),
        ];
        for (resource, namespace, body) in rows {
            let handle = client.dynamic(resource, namespace);
            handle.create(body.to_string()).await.unwrap();
        }
        let later = |cluster: &Cluster| {
            cluster
                .clock
                .set(cluster.clock.now() + SignedDuration::from_hours(400 * 24))
        };
        later(&cluster);
        let component = cluster.run(Component::Controller("legacy-serviceaccount-token-cleaner"));
        cluster
            .until("a mark", |cluster| {
                let labels = token(cluster).and_then(|token| token.metadata.labels);
                labels.is_some_and(|labels| labels.contains_key(INVALID_SINCE))
            })
            .await;
        component.stop().await;
        later(&cluster);
        let _component = cluster.run(Component::Controller("legacy-serviceaccount-token-cleaner"));
        cluster
            .until("no token", |cluster| token(cluster).is_none())
            .await;
    }
}
