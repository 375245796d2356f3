//! Credentials for registries, from the Secrets that a pod names.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;
use setpoint_container_runtime::PullCredentials;
use setpoint_runtime::EventType;

use super::bound_pod::BoundPod;
use super::work::PodExecutor;
use crate::image_pulls::{DOCKER_HUB, PullSecret, credential_hash, registry_of};

/// Credentials for a registry, and the Secret they are from.
#[derive(Debug, Clone)]
pub(super) struct SecretCredentials {
    pub(super) credentials: PullCredentials,
    pub(super) secret: PullSecret,
}

/// The content of a Secret of type `kubernetes.io/dockerconfigjson`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DockerConfig {
    auths: BTreeMap<String, RegistryAuth>,
}

/// The credentials of one registry.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RegistryAuth {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
    registrytoken: String,
}

impl PodExecutor {
    /// The credentials in the pod's Secrets that match the registry of an image. Missing Secrets are reported, and the
    /// image is pulled without them.
    pub(super) async fn pull_credentials(&self, pod: &BoundPod, image: &str) -> Vec<SecretCredentials> {
        let names = pod
            .spec()
            .image_pull_secrets
            .iter()
            .flatten()
            .map(|secret| secret.name.as_str());
        let (mut credentials, mut missing) = (Vec::new(), Vec::new());
        for name in names.filter(|name| !name.is_empty()) {
            match self.setup.secret(pod.key.namespace(), name, &self.client).await {
                Ok(secret) => credentials.extend(matching(&secret, image)),
                Err(_) => missing.push(name),
            }
        }
        if !missing.is_empty() {
            let message = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                missing.join(", ")
            );
            self.events.pod(
                pod,
                EventType::Warning,
                "FailedToRetrieveImagePullSecret",
                message,
            );
        }
        credentials
    }
}

/// The credentials of a Secret for the registry of an image.
fn matching(secret: &Secret, image: &str) -> Vec<SecretCredentials> {
    let data = |key: &str| secret.data.as_ref()?.get(key).map(|bytes| bytes.0.clone());
    let auths = if let Some(bytes) = data(".dockerconfigjson") {
        serde_json::from_slice::<DockerConfig>(&bytes).map(|config| config.auths)
    } else if let Some(bytes) = data(".dockercfg") {
        serde_json::from_slice::<BTreeMap<String, RegistryAuth>>(&bytes)
    } else {
        return Vec::new();
    };
    let matches = |(server, _): &(String, RegistryAuth)| is_for(server, image);
    let credentials = auths.unwrap_or_default().into_iter().filter(matches);
    let credentials = credentials.map(|(server_address, auth)| PullCredentials {
        username: auth.username,
        password: auth.password,
        auth: auth.auth,
        server_address,
        identity_token: auth.identitytoken,
        registry_token: auth.registrytoken,
    });
    credentials
        .map(|credentials| SecretCredentials {
            secret: pull_secret(secret, &credentials),
            credentials,
        })
        .collect()
}

/// The Secret as the records of pulled images name it.
fn pull_secret(secret: &Secret, credentials: &PullCredentials) -> PullSecret {
    let metadata = &secret.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    PullSecret {
        uid: text(&metadata.uid),
        namespace: text(&metadata.namespace),
        name: text(&metadata.name),
        credential_hash: credential_hash(credentials),
    }
}

/// Whether credentials for this server are for the registry of an image; `*` stands for a label of the host name.
fn is_for(server: &str, image: &str) -> bool {
    let server = server
        .trim_start_matches("https://")
        .trim_start_matches("http://");
    let server = server
        .trim_end_matches('/')
        .trim_end_matches("/v1")
        .trim_end_matches("/v2");
    let (host, path) = server.split_once('/').unwrap_or((server, ""));
    let (registry, repository) = registry_of(image);
    let same_host = match DOCKER_HUB.contains(&registry) {
        true => DOCKER_HUB.contains(&host),
        false => matches_host(host, registry),
    };
    same_host && (path.is_empty() || repository == path || repository.starts_with(&format!("{path}/")))
}

fn matches_host(pattern: &str, host: &str) -> bool {
    let (pattern, host): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), host.split('.').collect());
    let same = |(pattern, label): (&&str, &&str)| *pattern == "*" || pattern == label;
    pattern.len() == host.len() && pattern.iter().zip(&host).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(server: &str, image: &str, expected: bool) {
        assert_eq!(is_for(server, image), expected, "{server} {image}");
    }

    #[test]
    fn credentials_are_for_the_registry_of_their_server() {
        check("https://index.docker.io/v1/", "nginx", true);
        check("https://index.docker.io/v1/", "example.com/nginx", false);
        check("example.com:5000", "example.com:5000/a:1", true);
        check("*.example.com", "eu.example.com/a", true);
        check("example.com/team", "example.com/team/a", true);
        check("example.com/team", "example.com/teams/a", false);
    }
}
