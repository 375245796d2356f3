//! A CertificateSigningRequest as the controllers read it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;
use serde_json::Value;
use setpoint_api::Stored;
use setpoint_runtime::Error;
use setpoint_x509::GeneralName;

/// A CertificateSigningRequest.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Request {
    pub(super) metadata: Metadata,
    pub(super) spec: Spec,
    pub(super) status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) creation_timestamp: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) request: ByteString,
    pub(super) signer_name: String,
    pub(super) usages: Vec<String>,
    pub(super) expiration_seconds: Option<i64>,
    pub(super) username: String,
    pub(super) uid: String,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) conditions: Vec<Condition>,
    pub(super) certificate: ByteString,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) status: String,
    pub(super) last_update_time: Option<Timestamp>,
}

/// A parsed PKCS #10 request: the public key and its subject.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct CertificateRequest {
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
    pub(super) names: Vec<GeneralName>,
    /// The subject and the public key, DER-encoded as in the request.
    pub(super) subject: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// The bytes are not a PKCS #10 request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse the request: {0}")]
pub(super) struct ParseError(String);

/// The whole object with one more condition. The condition list is atomic, so all of it is written.
pub(super) fn with_condition(object: &Stored, condition: Value) -> Result<Value, Error> {
    let mut body: Value = object.decode()?;
    match body["status"]["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => body["status"]["conditions"] = Value::Array(vec![condition]),
    }
    Ok(body)
}

// === impl Request ===

impl Request {
    pub(super) fn is_issued(&self) -> bool {
        !self.status.certificate.0.is_empty()
    }

    /// Whether the request was approved or denied.
    pub(super) fn is_decided(&self) -> bool {
        self.find("Approved").is_some() || self.find("Denied").is_some()
    }

    /// Whether the request was approved and not denied or failed.
    pub(super) fn is_approved(&self) -> bool {
        let is_failed = |failed: &Condition| failed.status.is_empty() || failed.status == "True";
        self.find("Approved").is_some()
            && self.find("Denied").is_none()
            && !self.find("Failed").is_some_and(is_failed)
    }

    pub(super) fn find(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|own| own.type_ == type_)
    }
}

// === impl CertificateRequest ===

impl CertificateRequest {
    /// Parses the PEM text of a request.
    pub(super) fn read(pem: &[u8]) -> Result<Self, ParseError> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem);
        let der = der.map_err(|_| ParseError("PEM block type must be CERTIFICATE REQUEST".to_owned()))?;
        let csr = setpoint_x509::CertificateRequest::from_der(&der);
        let csr = csr.map_err(|error| ParseError(error.to_string()))?;
        Ok(Self {
            common_name: csr.subject.common_names().last().unwrap_or_default().to_owned(),
            organizations: csr.subject.organizations().map(str::to_owned).collect(),
            names: csr.subject_alt_names(),
            subject: csr.subject.raw.to_vec(),
            key: csr.public_key.raw.to_vec(),
        })
    }
}
