//! The endpoint of a conversion webhook, from the `clientConfig` of its CRD.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use setpoint_registry_api::{WebhookAddress, WebhookEndpoint};
use setpoint_schema::{Tree, fields};

/// The port of a service without one.
const DEFAULT_PORT: u16 = 443;

/// Reads a `clientConfig`.
pub(super) fn endpoint(client_config: &Tree) -> WebhookEndpoint {
    let text = |path: &[&str]| client_config.str_at(path).unwrap_or_default().to_owned();
    let port = client_config.at(&[fields::SERVICE, fields::PORT]);
    let port = port
        .and_then(Tree::as_i64)
        .and_then(|port| u16::try_from(port).ok());
    let address = match client_config.str_at(&[fields::URL]) {
        Some(url) => WebhookAddress::Url(url.to_owned()),
        None => WebhookAddress::Service {
            namespace: text(&[fields::SERVICE, fields::NAMESPACE]),
            name: text(&[fields::SERVICE, fields::NAME]),
            path: text(&[fields::SERVICE, fields::PATH]),
            port: port.unwrap_or(DEFAULT_PORT),
        },
    };
    let ca_bundle = STANDARD.decode(text(&[fields::CA_BUNDLE])).unwrap_or_default();
    WebhookEndpoint {
        address,
        // A bundle of nothing but white space counts as none.
        ca_bundle: match ca_bundle.trim_ascii() {
            [] => Bytes::new(),
            _ => Bytes::from(ca_bundle),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(config: &str, address: &WebhookAddress, ca_bundle: &str) {
        let endpoint = endpoint(&setpoint_codec::json::parse(config.as_bytes()).unwrap());
        assert_eq!(endpoint.address, *address);
        assert_eq!(endpoint.ca_bundle, ca_bundle);
    }

    #[test]
    fn a_webhook_has_a_url_or_a_service() {
        check(
            r#"{"url":"https://example.com/convert","caBundle":"UEVN"}"#,
            &WebhookAddress::Url("https://example.com/convert".to_owned()),
            "PEM",
        );
        let service = |path: &str, port| WebhookAddress::Service {
            namespace: "n".to_owned(),
            name: "s".to_owned(),
            path: path.to_owned(),
            port,
        };
        check(
            r#"{"service":{"namespace":"n","name":"s","path":"/c","port":8443},"caBundle":"Cg=="}"#,
            &service("/c", 8443),
            "",
        );
        check(
            r#"{"service":{"namespace":"n","name":"s"}}"#,
            &service("", 443),
            "",
        );
    }
}
