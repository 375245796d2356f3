//! Clears away tokens in secrets that were made automatically and that nobody has used for a year: first they are marked
//! as invalid, and a year later they go. How long tokens have been watched is in a ConfigMap; without it nothing is done.

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

use crate::account_tokens::secret::{Account, TokenSecret, is_token};
use crate::account_tokens::tracking::{LAST_USED, MAP, SYSTEM, day, first_day};
use crate::{Config, periodic};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "legacy-serviceaccount-token-cleaner-controller";

const PERIOD: Duration = Duration::from_secs(24 * 3600);
/// How long a token may be unused before it is marked, and marked before it goes.
const UNUSED: SignedDuration = SignedDuration::from_hours(365 * 24);
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

/// What is done with a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Mark,
    Delete,
}

impl Cleaner {
    /// One look at everything. What fails is tried again at the next.
    async fn clean(&self) {
        let now = self.clock.now();
        if !self.is_tracked_long_enough(now) {
            return;
        }
        let mut used = HashMap::new();
        for object in self.secrets.list() {
            let fate = fate(&object, now);
            if fate == Fate::Keep || !self.is_automatic(&object) {
                continue;
            }
            let namespace = object.key().namespace();
            let names = used
                .entry(namespace.to_owned())
                .or_insert_with(|| self.used_by_pods(namespace));
            if names.contains(object.key().name()) {
                continue;
            }
            let done = match fate {
                Fate::Mark => self.mark(&object, day(now)).await,
                _ => self.delete(&object).await,
            };
            if let Err(status) = done {
                tracing::warn!(secret = ?object.key(), %status, "cannot clear away an unused token");
            }
        }
    }

    fn is_tracked_long_enough(&self, now: Timestamp) -> bool {
        let map = self.maps.find(&Key::new(SYSTEM, MAP));
        let since = map.and_then(|map| first_day(map.stored()));
        let began = since.and_then(|since| since.checked_add(1.day()).ok());
        let began = began.and_then(|day| day.to_zoned(TimeZone::UTC).ok());
        began.is_some_and(|began| now.duration_since(began.timestamp()) >= UNUSED)
    }

    /// Whether its account names it, as one does of the tokens that were made for it without being asked.
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

    /// The secrets that pods of a namespace speak of, wherever they do.
    fn used_by_pods(&self, namespace: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for pod in self.pods.in_namespace(namespace) {
            if let Ok(document) = pod.decode::<Value>() {
                secret_names(&document["spec"], &mut names);
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

/// What is done with a secret that pods do not use and that was made automatically.
fn fate(object: &Stored, now: Timestamp) -> Fate {
    let Ok(secret) = object.decode::<TokenSecret>() else {
        return Fate::Keep;
    };
    let limit = now - UNUSED;
    let is_new = secret
        .metadata
        .creation_timestamp
        .is_none_or(|created| created >= limit);
    if !is_token(object) || object.header().deleting || is_new {
        return Fate::Keep;
    }
    let limit = day(limit);
    // A day that cannot be read may be any day.
    let last_used = object.label(LAST_USED).map(str::parse::<Date>);
    if last_used.is_some_and(|used| used.map_or(true, |used| used >= limit)) {
        return Fate::Keep;
    }
    match object.label(INVALID_SINCE).unwrap_or_default().parse::<Date>() {
        Err(_) => Fate::Mark,
        Ok(since) if since >= limit => Fate::Keep,
        Ok(_) => Fate::Delete,
    }
}

/// Collects what stands under the names that pods have for secrets.
fn secret_names(document: &Value, names: &mut BTreeSet<String>) {
    match document {
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
    use setpoint_testkit::{Cluster, Part};

    use super::*;

    #[track_caller]
    fn check(created: &str, labels: &[(&str, &str)], expected: Fate) {
        let mut header = Header::new(Key::new("default", "token"));
        header.fields = [("type".into(), crate::account_tokens::secret::TYPE.into())].into();
        let mut own: Vec<_> = labels
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        own.sort();
        header.labels = own.into();
        let json = json!({"metadata": {"creationTimestamp": created}}).to_string();
        let object = Stored::new(header, json.into(), 1);
        assert_eq!(fate(&object, "2026-06-01T12:00:00Z".parse().unwrap()), expected);
    }

    #[test]
    fn an_unused_token_is_marked_and_goes_a_year_later() {
        let (old, new) = ("2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
        check(new, &[], Fate::Keep);
        check(old, &[], Fate::Mark);
        check(old, &[(LAST_USED, "2026-01-01")], Fate::Keep);
        check(old, &[(LAST_USED, "2024-01-01")], Fate::Mark);
        check(old, &[(LAST_USED, "lately")], Fate::Keep);
        check(old, &[(INVALID_SINCE, "2026-01-01")], Fate::Keep);
        check(old, &[(INVALID_SINCE, "2025-01-01")], Fate::Delete);
        check(
            old,
            &[(INVALID_SINCE, "2025-01-01"), (LAST_USED, "2026-05-01")],
            Fate::Keep,
        );
    }

    #[test]
    fn secrets_are_found_wherever_pods_name_them() {
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
    async fn a_token_that_nobody_uses_goes_in_two_steps() {
        let cluster = Cluster::start().await;
        let client = cluster.client("test");
        let since = day(cluster.clock.now()).to_string();
        let map = json!({"metadata": {"name": MAP}, "data": {"since": since}});
        let account = json!({"metadata": {"name": "robot"}, "secrets": [{"name": "robot-token"}]});
        let account_name = "kubernetes.io/service-account.name";
        let secret = json!({
            "metadata": {"name": "robot-token", "annotations": {account_name: "robot"}},
            "type": crate::account_tokens::secret::TYPE,
        });
        let rows = [
            (ConfigMap::resource(), SYSTEM, map),
            (ServiceAccount::resource(), "default", account),
            (Secret::resource(), "default", secret),
        ];
        for (resource, namespace, document) in rows {
            let handle = client.dynamic(resource, namespace);
            handle.create(document.to_string()).await.unwrap();
        }
        let later = |cluster: &Cluster| {
            cluster
                .clock
                .set(cluster.clock.now() + SignedDuration::from_hours(400 * 24))
        };
        later(&cluster);
        let part = cluster.run(Part::Controller("legacy-serviceaccount-token-cleaner"));
        cluster
            .until("a mark", |cluster| {
                let labels = token(cluster).and_then(|token| token.metadata.labels);
                labels.is_some_and(|labels| labels.contains_key(INVALID_SINCE))
            })
            .await;
        part.stop().await;
        later(&cluster);
        let _part = cluster.run(Part::Controller("legacy-serviceaccount-token-cleaner"));
        cluster
            .until("no token", |cluster| token(cluster).is_none())
            .await;
    }
}
