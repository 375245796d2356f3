//! Floods of requests that wait for another server, which accepts connections and never responds.

use std::net::TcpListener;

use anyhow::Result;
use serde_json::json;

use super::attack::Attack;
use super::{ALICES, create};
use crate::objects;
use crate::session::Session;
use setpoint_conformance::wire::Request;

const CONCURRENT: usize = 32;
/// A server is found by its port, which the setup chooses before the flood listens.
const PORT: u16 = 18_443;

pub(super) fn create_webhook(admin: &mut Session) -> Result<()> {
    let webhook = json!({
        "name": "hangs.flood.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "failurePolicy": "Fail", "timeoutSeconds": 30,
        "clientConfig": {"url": format!("https://127.0.0.1:{PORT}/")},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ALICES}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
    });
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hangs"}, "webhooks": [webhook]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    create(admin, path, &configuration)
}

pub(super) fn webhook_writes(attack: &Attack) {
    let path = format!("{}?timeout=5s", objects::collection(ALICES));
    with_silent_server(attack, || {
        attack.repeat(CONCURRENT, |thread, number| {
            objects::post(
                &path,
                &objects::config_map(&format!("w{thread}-{number}"), "x", false),
            )
        });
    });
}

pub(super) fn create_api_service(admin: &mut Session) -> Result<()> {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hangs"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": PORT}]}});
    create(admin, "/api/v1/namespaces/default/services", &service)?;
    let api_service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.flood.example.com"},
        "spec": {"group": "flood.example.com", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"name": "hangs", "namespace": "default", "port": PORT}}});
    create(admin, "/apis/apiregistration.k8s.io/v1/apiservices", &api_service)
}

pub(super) fn api_service_requests(attack: &Attack) {
    let path = format!("/apis/flood.example.com/v1/namespaces/{ALICES}/things?timeout=5s");
    with_silent_server(attack, || {
        attack.repeat(CONCURRENT, |_, _| Request::new("GET", &path))
    });
}

/// Runs a flood beside a listener whose connections are accepted by the kernel only, and nothing is ever read.
fn with_silent_server(attack: &Attack, flood: impl FnOnce()) {
    match TcpListener::bind(("127.0.0.1", PORT)) {
        Ok(_listener) => flood(),
        Err(error) => attack.count(format!("no listener: {error}")),
    }
}
