//! ServiceAccount: every pod runs as a service account, and gets its token mounted unless automounting is off.

use std::sync::Arc;

use rand::Rng;

use setpoint_api::{GroupResource, Key, Status};
use setpoint_registry_api::Review;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;

use crate::chain::Plugin;
use crate::review;

const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";
const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
const VOLUME: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The odd value marks these tokens, so that the issuer can extend their expiration.
const TOKEN_SECONDS: i64 = 3607;
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LEN: usize = 5;

/// Sets the service account of pods and mounts its token.
#[derive(Debug)]
pub(crate) struct ServiceAccount;

impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !review::creates_pod(review) || is_mirror(review) {
            return Ok(());
        }
        let requested = name_of(review).to_owned();
        let name = if requested.is_empty() {
            DEFAULT
        } else {
            requested.as_str()
        };
        let account = account(review, name)?;
        let Some(pod) = review.object.as_deref_mut() else {
            return Ok(());
        };
        let spec = pod.child(fields::SPEC);
        if requested.is_empty() {
            spec.set(&[fields::SERVICE_ACCOUNT_NAME], DEFAULT);
            spec.set(&[fields::SERVICE_ACCOUNT], DEFAULT);
        }
        if automounts_token(spec, &account) {
            mount_token(spec);
        }
        let secrets = account.items(fields::IMAGE_PULL_SECRETS);
        if spec.items(fields::IMAGE_PULL_SECRETS).is_empty() && !secrets.is_empty() {
            spec.set(&[fields::IMAGE_PULL_SECRETS], secrets.to_vec());
        }
        Ok(())
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !review::creates_pod(review) {
            return Ok(());
        }
        if is_mirror(review) {
            return check_mirror(review);
        }
        let name = name_of(review).to_owned();
        let account = account(review, &name)?;
        let enforced = meta::entry(&account, "annotations", ENFORCE_MOUNTABLE_SECRETS);
        if !matches!(enforced, Some("1" | "t" | "T" | "true" | "TRUE" | "True")) {
            return Ok(());
        }
        let Some(spec) = review.object.as_deref().and_then(|pod| pod.get("spec")) else {
            return Ok(());
        };
        check_secrets(spec, &account, &name).map_err(|why| review::forbidden(review, &why))
    }
}

fn is_mirror(review: &Review<'_>) -> bool {
    let pod = review.object.as_deref();
    pod.is_some_and(|pod| meta::entry(pod, "annotations", MIRROR).is_some())
}

fn name_of<'a>(review: &'a Review<'_>) -> &'a str {
    let pod = review.object.as_deref();
    pod.and_then(|pod| pod.str_at(&[fields::SPEC, fields::SERVICE_ACCOUNT_NAME]))
        .unwrap_or_default()
}

/// The service account, decoded once for all of its pods.
fn account(review: &Review<'_>, name: &str) -> Result<Arc<Tree>, Status> {
    let accounts = GroupResource::new("", "serviceaccounts");
    let found = review.find(&accounts, &Key::new(review.namespace, name));
    found.map(|found| review::view(&found)).ok_or_else(|| {
        let why = format!(
            "error looking up service account {}/{name}: serviceaccount {name:?} not found",
            review.namespace
        );
        review::forbidden(review, &why)
    })
}

/// Whether the token is mounted: the pod's setting takes precedence over the account's.
fn automounts_token(spec: &Tree, account: &Tree) -> bool {
    let automount = |object: &Tree| object.get("automountServiceAccountToken").and_then(Tree::as_bool);
    automount(spec).or_else(|| automount(account)).unwrap_or(true)
}

fn mount_token(spec: &mut Tree) {
    let existing = spec
        .items(fields::VOLUMES)
        .iter()
        .filter_map(|volume| volume.str_at(&[fields::NAME]));
    let existing = existing.into_iter().find(|name| name.starts_with(VOLUME));
    let existing = existing.map(str::to_owned);
    let volume = existing.clone().unwrap_or_else(generate_volume_name);
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.items_mut(list) {
            let mounts = container.items(fields::VOLUME_MOUNTS);
            if mounts
                .iter()
                .any(|mount| mount.str_at(&[fields::MOUNT_PATH]) == Some(MOUNT_PATH))
            {
                continue;
            }
            let mut mount = Tree::default();
            mount.set(&[fields::NAME], volume.as_str());
            mount.set(&[fields::READ_ONLY], true);
            mount.set(&[fields::MOUNT_PATH], MOUNT_PATH);
            review::push(container, "volumeMounts", mount);
            mounted = true;
        }
    }
    if mounted && existing.is_none() {
        review::push(spec, "volumes", token_volume(&volume));
    }
}

fn generate_volume_name() -> String {
    let mut random = rand::rng();
    let suffix = (0..SUFFIX_LEN).map(|_| char::from(SUFFIX[random.random_range(0..SUFFIX.len())]));
    format!("{VOLUME}{}", suffix.collect::<String>())
}

/// The projected volume with token, CA certificate and namespace.
fn token_volume(name: &str) -> Tree {
    let mut token = Tree::default();
    token.set(
        &[fields::SERVICE_ACCOUNT_TOKEN, fields::EXPIRATION_SECONDS],
        TOKEN_SECONDS,
    );
    token.set(&[fields::SERVICE_ACCOUNT_TOKEN, fields::PATH], "token");
    let mut file = Tree::default();
    file.set(&[fields::KEY], "ca.crt");
    file.set(&[fields::PATH], "ca.crt");
    let mut ca = Tree::default();
    ca.set(&[fields::CONFIG_MAP, fields::NAME], "kube-root-ca.crt");
    ca.set(&[fields::CONFIG_MAP, fields::ITEMS], vec![file]);
    let mut item = Tree::default();
    item.set(&[fields::PATH], "namespace");
    item.set(&[fields::FIELD_REF, fields::API_VERSION], "v1");
    item.set(&[fields::FIELD_REF, fields::FIELD_PATH], "metadata.namespace");
    let mut namespace = Tree::default();
    namespace.set(&[fields::DOWNWARD_API, fields::ITEMS], vec![item]);
    let mut volume = Tree::default();
    volume.set(&[fields::NAME], name);
    volume.set(&[fields::PROJECTED, fields::SOURCES], vec![token, ca, namespace]);
    volume.set(&[fields::PROJECTED, fields::DEFAULT_MODE], 0o644);
    volume
}

/// A mirror pod, which a node created for a static pod, has no service account.
fn check_mirror(review: &Review<'_>) -> Result<(), Status> {
    if !name_of(review).is_empty() {
        return Err(review::forbidden(
            review,
            "a mirror pod may not reference service accounts",
        ));
    }
    let spec = review.object.as_deref().and_then(|pod| pod.get("spec"));
    let volumes = spec.map(|spec| spec.items(fields::VOLUMES)).unwrap_or_default();
    if volumes.iter().any(|volume| review::has(volume, &["secret"])) {
        return Err(review::forbidden(
            review,
            "a mirror pod may not reference secrets",
        ));
    }
    let token = |source: &Tree| review::has(source, &["serviceAccountToken"]);
    let projected = volumes.iter().filter_map(|volume| volume.get("projected"));
    if projected
        .flat_map(|volume| volume.items(fields::SOURCES))
        .any(token)
    {
        let why = "a mirror pod may not use ServiceAccountToken volume projections";
        return Err(review::forbidden(review, why));
    }
    Ok(())
}

/// Checks that the pod uses only the Secrets that its account references (`enforce-mountable-secrets`).
fn check_secrets(spec: &Tree, account: &Tree, name: &str) -> Result<(), String> {
    let is_referenced = |list: &str, secret: &str| {
        let mut own = account.items(list).iter();
        own.any(|own| own.str_at(&[fields::NAME]) == Some(secret))
    };
    let denied = format!("is not allowed because service account {name} does not reference that");
    for volume in spec.items(fields::VOLUMES) {
        if let Some(secret) = volume.str_at(&[fields::SECRET, fields::SECRET_NAME])
            && !is_referenced("secrets", secret)
        {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" {denied} secret"
            ));
        }
    }
    for (list, word) in [("initContainers", "init container"), ("containers", "container")] {
        for container in spec.items(list) {
            let own = container.str_at(&[fields::NAME]).unwrap_or_default();
            for env in container.items(fields::ENV) {
                if let Some(secret) = env.str_at(&[fields::VALUE_FROM, fields::SECRET_KEY_REF, fields::NAME])
                    && !is_referenced("secrets", secret)
                {
                    let variable = env.str_at(&[fields::NAME]).unwrap_or_default();
                    return Err(format!(
                        "{word} {own} with envVar {variable} referencing secret.secretName=\"{secret}\" {denied} secret"
                    ));
                }
            }
            for source in container.items(fields::ENV_FROM) {
                if let Some(secret) = source.str_at(&[fields::SECRET_REF, fields::NAME])
                    && !is_referenced("secrets", secret)
                {
                    return Err(format!(
                        "{word} {own} with envFrom referencing secret.secretName=\"{secret}\" {denied} secret"
                    ));
                }
            }
        }
    }
    for (at, secret) in spec.items(fields::IMAGE_PULL_SECRETS).iter().enumerate() {
        let secret = secret.str_at(&[fields::NAME]).unwrap_or_default();
        if !is_referenced("imagePullSecrets", secret) {
            return Err(format!(
                "imagePullSecrets[{at}].name=\"{secret}\" {denied} imagePullSecret"
            ));
        }
    }
    Ok(())
}
