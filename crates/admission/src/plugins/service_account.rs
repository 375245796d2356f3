//! ServiceAccount: every pod runs as someone, and gets that one's token unless it does not want it.

use std::sync::Arc;

use rand::Rng;

use setpoint_api::{GroupResource, Key, Status};
use setpoint_kinds::meta;
use setpoint_registry::Review;
use setpoint_schema::Tree;

use crate::about;
use crate::chain::Plugin;

const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";
const ENFORCED: &str = "kubernetes.io/enforce-mountable-secrets";
const VOLUME: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A bit more than an hour, so that a token that is good for longer can be told from one that was asked for.
const TOKEN_SECONDS: i64 = 3607;
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LEN: usize = 5;

/// The rule of who pods run as.
#[derive(Debug)]
pub(crate) struct ServiceAccount;

impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !about::creates_pod(review) || is_mirror(review) {
            return Ok(());
        }
        let asked = name_of(review).to_owned();
        let name = if asked.is_empty() { DEFAULT } else { asked.as_str() };
        let account = account(review, name)?;
        let Some(pod) = review.object.as_deref_mut() else {
            return Ok(());
        };
        let spec = pod.child("spec");
        if asked.is_empty() {
            spec.set(&["serviceAccountName"], DEFAULT);
            spec.set(&["serviceAccount"], DEFAULT);
        }
        if wants_token(spec, &account) {
            mount_token(spec);
        }
        let secrets = account.items("imagePullSecrets");
        if spec.items("imagePullSecrets").is_empty() && !secrets.is_empty() {
            spec.set(&["imagePullSecrets"], secrets.to_vec());
        }
        Ok(())
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !about::creates_pod(review) {
            return Ok(());
        }
        if is_mirror(review) {
            return check_mirror(review);
        }
        let name = name_of(review).to_owned();
        let account = account(review, &name)?;
        let enforced = meta::entry(&account, "annotations", ENFORCED);
        if !matches!(enforced, Some("1" | "t" | "T" | "true" | "TRUE" | "True")) {
            return Ok(());
        }
        let Some(spec) = review.object.as_deref().and_then(|pod| pod.get("spec")) else {
            return Ok(());
        };
        check_secrets(spec, &account, &name).map_err(|why| about::forbidden(review, &why))
    }
}

fn is_mirror(review: &Review<'_>) -> bool {
    let pod = review.object.as_deref();
    pod.is_some_and(|pod| meta::entry(pod, "annotations", MIRROR).is_some())
}

fn name_of<'a>(review: &'a Review<'_>) -> &'a str {
    let pod = review.object.as_deref();
    pod.and_then(|pod| pod.str_at(&["spec", "serviceAccountName"]))
        .unwrap_or_default()
}

/// The account, decoded once for all of its pods.
fn account(review: &Review<'_>, name: &str) -> Result<Arc<Tree>, Status> {
    let accounts = GroupResource::new("", "serviceaccounts");
    let found = review.find(&accounts, &Key::new(review.namespace, name));
    found.map(|found| about::view(&found)).ok_or_else(|| {
        let why = format!(
            "error looking up service account {}/{name}: serviceaccount {name:?} not found",
            review.namespace
        );
        about::forbidden(review, &why)
    })
}

/// The pod's own word counts first, then the account's.
fn wants_token(spec: &Tree, account: &Tree) -> bool {
    let says = |object: &Tree| object.get("automountServiceAccountToken").and_then(Tree::as_bool);
    says(spec).or_else(|| says(account)).unwrap_or(true)
}

fn mount_token(spec: &mut Tree) {
    let existing = spec
        .items("volumes")
        .iter()
        .filter_map(|volume| volume.str_at(&["name"]));
    let existing = existing.into_iter().find(|name| name.starts_with(VOLUME));
    let existing = existing.map(str::to_owned);
    let volume = existing.clone().unwrap_or_else(make_name);
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.items_mut(list) {
            let mounts = container.items("volumeMounts");
            if mounts
                .iter()
                .any(|mount| mount.str_at(&["mountPath"]) == Some(MOUNT_PATH))
            {
                continue;
            }
            let mut mount = Tree::default();
            mount.set(&["name"], volume.as_str());
            mount.set(&["readOnly"], true);
            mount.set(&["mountPath"], MOUNT_PATH);
            about::push(container, "volumeMounts", mount);
            mounted = true;
        }
    }
    if mounted && existing.is_none() {
        about::push(spec, "volumes", token_volume(&volume));
    }
}

fn make_name() -> String {
    let mut random = rand::rng();
    let suffix = (0..SUFFIX_LEN).map(|_| char::from(SUFFIX[random.random_range(0..SUFFIX.len())]));
    format!("{VOLUME}{}", suffix.collect::<String>())
}

/// The token, whom to trust, and the name of the namespace.
fn token_volume(name: &str) -> Tree {
    let mut token = Tree::default();
    token.set(&["serviceAccountToken", "expirationSeconds"], TOKEN_SECONDS);
    token.set(&["serviceAccountToken", "path"], "token");
    let mut file = Tree::default();
    file.set(&["key"], "ca.crt");
    file.set(&["path"], "ca.crt");
    let mut trust = Tree::default();
    trust.set(&["configMap", "name"], "kube-root-ca.crt");
    trust.set(&["configMap", "items"], vec![file]);
    let mut own = Tree::default();
    own.set(&["path"], "namespace");
    own.set(&["fieldRef", "apiVersion"], "v1");
    own.set(&["fieldRef", "fieldPath"], "metadata.namespace");
    let mut place = Tree::default();
    place.set(&["downwardAPI", "items"], vec![own]);
    let mut volume = Tree::default();
    volume.set(&["name"], name);
    volume.set(&["projected", "sources"], vec![token, trust, place]);
    volume.set(&["projected", "defaultMode"], 0o644);
    volume
}

/// A mirror of what a node runs by itself has no one to run as.
fn check_mirror(review: &Review<'_>) -> Result<(), Status> {
    if !name_of(review).is_empty() {
        return Err(about::forbidden(
            review,
            "a mirror pod may not reference service accounts",
        ));
    }
    let spec = review.object.as_deref().and_then(|pod| pod.get("spec"));
    let volumes = spec.map(|spec| spec.items("volumes")).unwrap_or_default();
    if volumes.iter().any(|volume| about::has(volume, &["secret"])) {
        return Err(about::forbidden(review, "a mirror pod may not reference secrets"));
    }
    let token = |source: &Tree| about::has(source, &["serviceAccountToken"]);
    let projected = volumes.iter().filter_map(|volume| volume.get("projected"));
    if projected.flat_map(|volume| volume.items("sources")).any(token) {
        let why = "a mirror pod may not use ServiceAccountToken volume projections";
        return Err(about::forbidden(review, why));
    }
    Ok(())
}

/// Some accounts say which secrets their pods may use.
fn check_secrets(spec: &Tree, account: &Tree, name: &str) -> Result<(), String> {
    let known = |list: &str, secret: &str| {
        let mut own = account.items(list).iter();
        own.any(|own| own.str_at(&["name"]) == Some(secret))
    };
    let denied = format!("is not allowed because service account {name} does not reference that");
    for volume in spec.items("volumes") {
        if let Some(secret) = volume.str_at(&["secret", "secretName"])
            && !known("secrets", secret)
        {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" {denied} secret"
            ));
        }
    }
    for (list, word) in [("initContainers", "init container"), ("containers", "container")] {
        for container in spec.items(list) {
            let own = container.str_at(&["name"]).unwrap_or_default();
            for env in container.items("env") {
                if let Some(secret) = env.str_at(&["valueFrom", "secretKeyRef", "name"])
                    && !known("secrets", secret)
                {
                    let variable = env.str_at(&["name"]).unwrap_or_default();
                    return Err(format!(
                        "{word} {own} with envVar {variable} referencing secret.secretName=\"{secret}\" {denied} secret"
                    ));
                }
            }
            for source in container.items("envFrom") {
                if let Some(secret) = source.str_at(&["secretRef", "name"])
                    && !known("secrets", secret)
                {
                    return Err(format!(
                        "{word} {own} with envFrom referencing secret.secretName=\"{secret}\" {denied} secret"
                    ));
                }
            }
        }
    }
    for (at, secret) in spec.items("imagePullSecrets").iter().enumerate() {
        let secret = secret.str_at(&["name"]).unwrap_or_default();
        if !known("imagePullSecrets", secret) {
            return Err(format!(
                "imagePullSecrets[{at}].name=\"{secret}\" {denied} imagePullSecret"
            ));
        }
    }
    Ok(())
}
