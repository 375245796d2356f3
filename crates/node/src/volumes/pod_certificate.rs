//! Certificates of pods, for projected volumes.
//!
//! The agent generates the key and requests the certificate by a PodCertificateRequest, which a signer in the cluster issues,
//! denies or fails; the last two are final for the pod. A certificate is renewed when its signer wants it. Keys are in memory
//! and in the volumes only: an agent that was restarted requests new certificates.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{PodCertificateRequest, PodCertificateRequestSpec};
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;
use setpoint_api::{Status, Stored};
use setpoint_x509::{KeyType, Name, PrivateKey, pem, sign_request};

use super::VolumeManager;
use crate::container_config::{identity, spec};

/// How often, and how many times, the agent looks at a new request before the volume fails to mount for this time.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const POLLS: u32 = 10;

const NOT_ISSUED: &str = "credential bundle is not issued yet";

/// The credentials of the pods of a node.
#[derive(Debug, Default)]
pub(super) struct CredentialStore(Mutex<HashMap<CredentialKey, CredentialState>>);

/// A source of a projected volume: the uid of the pod, the volume and the number of the source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CredentialKey {
    pub(super) pod_uid: String,
    pub(super) volume: String,
    pub(super) source: usize,
}

/// A key and its certificates, PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) key: String,
    pub(super) chain: String,
}

#[derive(Debug, Clone)]
enum CredentialState {
    /// The first certificate was requested: it is issued, or the request is denied or fails.
    Requested(PendingRequest),
    /// There is a certificate. From `renew_at` on there is a request for the next one, which replaces it.
    Issued {
        credentials: Credentials,
        renew_at: Timestamp,
        renewal: Option<PendingRequest>,
    },
    /// The signer denied a request or failed, which is final.
    Rejected(String),
}

/// A request that has not been decided, as far as the agent knows.
#[derive(Clone)]
struct PendingRequest {
    name: String,
    key: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RequestView {
    status: RequestStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RequestStatus {
    conditions: Vec<RequestCondition>,
    certificate_chain: String,
    begin_refresh_at: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RequestCondition {
    #[serde(rename = "type")]
    type_: String,
    reason: String,
    message: String,
}

// === impl VolumeManager ===

impl VolumeManager {
    /// The key and the certificates of a source, requested or renewed if that is due.
    pub(super) async fn pod_credentials(
        &self,
        pod: &v1::Pod,
        source: &v1::PodCertificateProjection,
        key: CredentialKey,
    ) -> Result<Credentials, String> {
        let now = self.clock.now();
        let next = match self.credentials.find(&key) {
            None => {
                let request = self.request_certificate(pod, source).await?;
                self.first_certificate(pod, request).await
            }
            Some(CredentialState::Requested(request)) => self.first_certificate(pod, request).await,
            Some(CredentialState::Issued {
                credentials,
                renew_at,
                renewal: None,
            }) if renew_at <= now => match self.request_certificate(pod, source).await {
                Ok(request) => CredentialState::Issued {
                    credentials,
                    renew_at,
                    renewal: Some(request),
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot request the renewal of a pod's certificate");
                    return Ok(credentials);
                }
            },
            Some(CredentialState::Issued {
                renewal: Some(request),
                credentials,
                renew_at,
            }) => match self.decision(pod, &request).await {
                CredentialState::Requested(request) => CredentialState::Issued {
                    credentials,
                    renew_at,
                    renewal: Some(request),
                },
                decided => decided,
            },
            Some(settled) => settled,
        };
        self.credentials.insert(key, next.clone());
        match next {
            CredentialState::Issued { credentials, .. } => Ok(credentials),
            CredentialState::Requested(_) => Err(NOT_ISSUED.to_owned()),
            CredentialState::Rejected(message) => Err(message),
        }
    }

    /// Waits a moment for the decision on the first request: the pod cannot start without.
    async fn first_certificate(&self, pod: &v1::Pod, request: PendingRequest) -> CredentialState {
        for _ in 0..POLLS {
            match self.decision(pod, &request).await {
                CredentialState::Requested(_) => self.clock.sleep(POLL_INTERVAL).await,
                decided => return decided,
            }
        }
        CredentialState::Requested(request)
    }

    /// What became of a request; `Requested` if it is not known.
    async fn decision(&self, pod: &v1::Pod, request: &PendingRequest) -> CredentialState {
        let [_, namespace, _] = identity(pod);
        let requests = self.objects.client.namespaced::<PodCertificateRequest>(namespace);
        let read = requests.dynamic().get(&request.name).await;
        let view = read.map(|stored: Arc<Stored>| stored.decode::<RequestView>().unwrap_or_default());
        match view {
            Ok(view) => view.status.decision(request),
            Err(error) => {
                tracing::debug!(%namespace, request = %request.name, %error, "cannot read a request for a certificate");
                CredentialState::Requested(request.clone())
            }
        }
    }

    async fn request_certificate(
        &self,
        pod: &v1::Pod,
        source: &v1::PodCertificateProjection,
    ) -> Result<PendingRequest, String> {
        let [name, namespace, uid] = identity(pod);
        let spec = spec(pod);
        let account = spec.service_account_name.as_deref().unwrap_or("default");
        let text = |status: Status| status.message.to_string();
        let stored_account = self
            .objects
            .read_account(namespace, account)
            .await
            .map_err(text)?;
        let node = self.objects.read_node(&self.node.name).await.map_err(text)?;
        let (key, request) = generate_key(&source.key_type)?;
        let request = PodCertificateRequest {
            metadata: ObjectMeta {
                generate_name: Some("req-".to_owned()),
                owner_references: Some(vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Pod".to_owned(),
                    name: name.to_owned(),
                    uid: uid.to_owned(),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            spec: PodCertificateRequestSpec {
                signer_name: source.signer_name.clone(),
                pod_name: name.to_owned(),
                pod_uid: uid.to_owned(),
                service_account_name: account.to_owned(),
                service_account_uid: stored_account.uid().to_owned(),
                node_name: self.node.name.clone(),
                node_uid: node.uid().to_owned(),
                max_expiration_seconds: source.max_expiration_seconds,
                stub_pkc_s10_request: ByteString(request),
                unverified_user_annotations: source.user_annotations.clone(),
            },
            ..PodCertificateRequest::default()
        };
        let requests = self.objects.client.namespaced::<PodCertificateRequest>(namespace);
        let created = requests.create(&request).await.map_err(text)?;
        Ok(PendingRequest {
            name: created.key().name().to_owned(),
            key,
        })
    }
}

/// A new key of a type as the API names it, PEM, and a request that is signed with it and has nothing else in it.
fn generate_key(key_type: &str) -> Result<(String, Vec<u8>), String> {
    let key_type = match key_type {
        "ECDSAP256" => KeyType::EcdsaP256,
        "ECDSAP384" => KeyType::EcdsaP384,
        "ED25519" => KeyType::Ed25519,
        other => return Err(format!("this node cannot generate keys of type {other:?}")),
    };
    let generated = PrivateKey::generate_of_type(key_type);
    let (key, pem) = generated.map_err(|error| format!("while generating keypair: {error}"))?;
    let request = sign_request(&Name::encode(&[]), &key);
    Ok((pem, request.map_err(|error| error.to_string())?))
}

/// The certificates of a chain, without headers and text between them.
fn clean_chain(chain: &str) -> String {
    let certificates = CertificateDer::pem_slice_iter(chain.as_bytes());
    let certificates = certificates.filter_map(Result::ok);
    certificates
        .map(|der| pem::encode(pem::CERTIFICATE, &der))
        .collect()
}

// === impl CredentialStore ===

impl CredentialStore {
    fn find(&self, key: &CredentialKey) -> Option<CredentialState> {
        self.0.lock().get(key).cloned()
    }

    fn insert(&self, key: CredentialKey, state: CredentialState) {
        self.0.lock().insert(key, state);
    }

    /// Drops the credentials of a pod that is gone.
    pub(super) fn forget(&self, pod_uid: &str) {
        self.0.lock().retain(|key, _| key.pod_uid != pod_uid);
    }
}

// === impl RequestStatus ===

impl RequestStatus {
    fn decision(self, request: &PendingRequest) -> CredentialState {
        for condition in &self.conditions {
            let RequestCondition { reason, message, .. } = condition;
            let rejected = |what: &str| {
                let text = format!(
                    "PodCertificateRequest was permanently {what}: reason={reason:?} message={message:?}"
                );
                CredentialState::Rejected(text)
            };
            match condition.type_.as_str() {
                "Denied" => return rejected("denied"),
                "Failed" => return rejected("failed"),
                "Issued" => {
                    return CredentialState::Issued {
                        credentials: Credentials {
                            key: request.key.clone(),
                            chain: clean_chain(&self.certificate_chain),
                        },
                        renew_at: self.begin_refresh_at.unwrap_or(Timestamp::MAX),
                        renewal: None,
                    };
                }
                _ => {}
            }
        }
        CredentialState::Requested(request.clone())
    }
}

// Keys must not get into logs.

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for PendingRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingRequest")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
