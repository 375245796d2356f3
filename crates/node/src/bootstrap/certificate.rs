//! [`NodeCertificate`]: the client certificate of a node, its request, its file and its renewal.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::{Clock, Gvr};
use setpoint_client::Client;
use setpoint_client::kubeconfig::Identity;
use setpoint_x509::{Certificate, Name, PrivateKey, oid, pem, sign_request};

use super::Error;

/// The signer of nodes' client certificates.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const CERTIFICATE_REQUEST: &str = "CERTIFICATE REQUEST";
/// How often the agent looks whether its request was granted.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// A certificate is renewed after this part of its lifetime, in per cent: that of the kubelet, without its jitter.
const RENEW_AFTER_PERCENT: i64 = 80;
/// Only the owner may read the key.
const OWNER_ONLY: u32 = 0o600;

/// The certificate and the key of a node, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeCertificate {
    chain: String,
    key: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Request {
    status: RequestStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RequestStatus {
    certificate: Option<String>,
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    reason: String,
    message: String,
}

// === impl NodeCertificate ===

impl NodeCertificate {
    /// Requests a certificate for this node, and waits until it is signed.
    pub async fn request(client: &Client, node: &str, clock: &dyn Clock) -> Result<Self, Error> {
        let (key, key_pem) = PrivateKey::generate()?;
        let user = format!("system:node:{node}");
        let subject = Name::encode(&[(oid::ORGANIZATION, "system:nodes"), (oid::COMMON_NAME, &user)]);
        let request = pem::encode(CERTIFICATE_REQUEST, &sign_request(&subject, &key)?);
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": { "generateName": "csr-" },
            "spec": {
                "request": STANDARD.encode(request), "signerName": SIGNER,
                "usages": ["digital signature", "client auth"],
            },
        });
        let requests = Gvr::new("certificates.k8s.io", "v1", "certificatesigningrequests");
        let requests = client.dynamic(requests, "");
        let created = requests.create(request.to_string()).await?;
        let name = created.key().name().to_owned();
        loop {
            let request: Request = requests.get(&name).await?.decode().map_err(not_granted(&name))?;
            if let Some(chain) = request.status.granted(&name)? {
                let key = key_pem;
                return Ok(Self { chain, key });
            }
            clock.sleep(POLL_INTERVAL).await;
        }
    }

    /// Reads the certificate of a file, unless there is none.
    pub fn load(path: &Path) -> io::Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        // The key follows the chain.
        let Some(at) = text.find("-----BEGIN PRIVATE KEY-----") else {
            return Ok(None);
        };
        let (chain, key) = text.split_at(at);
        Ok(Some(Self {
            chain: chain.to_owned(),
            key: key.to_owned(),
        }))
    }

    /// Writes the certificate and its key, readable by their owner only.
    pub fn store(&self, path: &Path) -> io::Result<()> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let fresh = path.with_extension("new");
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(OWNER_ONLY)
            .open(&fresh)?;
        file.write_all(self.chain.as_bytes())?;
        file.write_all(self.key.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)
    }

    /// The credentials of a client.
    pub fn identity(&self) -> Identity {
        Identity::Certificate {
            chain: self.chain.clone().into_bytes(),
            key: self.key.clone().into_bytes(),
        }
    }

    /// Whether it is this node's and valid.
    pub fn is_valid_for(&self, node: &str, now: Timestamp) -> bool {
        let user = format!("system:node:{node}");
        let is_valid = |certificate: &Certificate<'_>| {
            let is_own = certificate.subject.common_names().any(|name| name == user);
            is_own && certificate.not_before <= now && now < certificate.not_after
        };
        self.leaf()
            .is_ok_and(|der| Certificate::from_der(&der).is_ok_and(|one| is_valid(&one)))
    }

    /// When it is to be renewed.
    pub fn renewal(&self) -> Result<Timestamp, Error> {
        let der = self.leaf().map_err(setpoint_pki::Error::from)?;
        let certificate = Certificate::from_der(&der)?;
        let lifetime = certificate.not_after.duration_since(certificate.not_before);
        let after = lifetime.as_secs().saturating_mul(RENEW_AFTER_PERCENT) / 100;
        let after = Duration::from_secs(after.max(0).unsigned_abs());
        Ok(certificate
            .not_before
            .saturating_add(after)
            .unwrap_or(certificate.not_after))
    }

    fn leaf(&self) -> Result<CertificateDer<'static>, rustls_pki_types::pem::Error> {
        CertificateDer::from_pem_slice(self.chain.as_bytes())
    }
}

impl std::fmt::Debug for NodeCertificate {
    /// Without the key, which must not get into logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeCertificate").finish_non_exhaustive()
    }
}

// === impl RequestStatus ===

impl RequestStatus {
    /// The signed certificate, once there is one.
    fn granted(self, name: &str) -> Result<Option<String>, Error> {
        let rejected = self
            .conditions
            .iter()
            .find(|one| matches!(one.type_.as_str(), "Denied" | "Failed"));
        if let Some(condition) = rejected {
            return Err(not_granted(name)(format!(
                "{}: {}",
                condition.reason, condition.message
            )));
        }
        let Some(certificate) = self.certificate.filter(|certificate| !certificate.is_empty()) else {
            return Ok(None);
        };
        let certificate = STANDARD.decode(certificate).map_err(not_granted(name))?;
        String::from_utf8(certificate)
            .map(Some)
            .map_err(not_granted(name))
    }
}

fn not_granted<E: ToString>(name: &str) -> impl FnOnce(E) -> Error + use<E> {
    let name = name.to_owned();
    move |error| Error::NotGranted {
        name,
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use setpoint_api::SystemClock;

    use super::*;
    use crate::server::ServerTls;

    fn certificate() -> NodeCertificate {
        let tls = ServerTls::self_signed("n1", &[], SystemClock::new().now()).unwrap();
        NodeCertificate {
            chain: tls.certificate,
            key: tls.key,
        }
    }

    #[test]
    fn the_certificate_is_stored_with_its_key_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pki/kubelet-client-current.pem");
        assert_eq!(NodeCertificate::load(&path).unwrap(), None);
        let stored = certificate();
        stored.store(&path).unwrap();
        stored.store(&path).unwrap();
        assert_eq!(NodeCertificate::load(&path).unwrap(), Some(stored));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, OWNER_ONLY);
    }

    #[test]
    fn a_certificate_is_renewed_before_it_expires_and_not_used_by_another_node() {
        let now = SystemClock::new().now();
        let certificate = certificate();
        let until = Duration::try_from(certificate.renewal().unwrap().duration_since(now)).unwrap();
        let days = until.as_secs() / (24 * 60 * 60);
        assert!((290..293).contains(&days), "{days}");
        assert!(!certificate.is_valid_for("n1", now));
    }

    #[track_caller]
    fn check(status: serde_json::Value, expected: &str) {
        let status: RequestStatus = serde_json::from_value(status).unwrap();
        let shown = match status.granted("csr-1") {
            Ok(certificate) => format!("{certificate:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_request_is_granted_once_it_is_signed() {
        let approved = json!({ "type": "Approved", "reason": "AutoApproved" });
        check(json!({}), "None");
        check(json!({ "conditions": [approved] }), "None");
        check(
            json!({ "conditions": [approved], "certificate": "UEVN" }),
            "Some(\"PEM\")",
        );
        let denied = json!({ "type": "Denied", "reason": "No", "message": "unknown node" });
        check(
            json!({ "conditions": [denied] }),
            "the certificate request csr-1 was not granted: No: unknown node",
        );
    }
}
