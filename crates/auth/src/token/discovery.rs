//! OpenID discovery for clients that verify tokens: the configuration and the public keys.

use serde::Serialize;

use super::issuer::Issuer;
use crate::keys::JsonWebKey;

/// Where the configuration is served.
pub const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// Where the keys are served.
pub const KEYS_PATH: &str = "/openid/v1/jwks";
/// The media type of the keys; the configuration is plain JSON.
pub const KEYS_TYPE: &str = "application/jwk-set+json";
/// How long clients may cache both.
pub const CACHE_SECONDS: u32 = 3600;

#[derive(Serialize)]
struct Configuration<'a> {
    issuer: &'a str,
    jwks_uri: String,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: Vec<&'static str>,
}

#[derive(Serialize)]
struct JsonWebKeySet<'a> {
    keys: Vec<&'a JsonWebKey>,
}

/// The OpenID configuration of the issuer, in JSON. `address` is the server's external host and port.
pub fn configuration(issuer: &Issuer, address: &str) -> Vec<u8> {
    let keys = issuer.keys();
    let mut algorithms: Vec<&str> = keys.iter().map(|key| key.algorithm.name()).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    to_json(&Configuration {
        issuer: &issuer.url,
        jwks_uri: match &issuer.jwks_uri {
            Some(uri) => uri.clone(),
            None => format!("https://{address}{KEYS_PATH}"),
        },
        response_types_supported: ["id_token"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: algorithms,
    })
}

/// The public keys of the issuer, in JSON.
pub fn keys(issuer: &Issuer) -> Vec<u8> {
    let keys = issuer.keys();
    to_json(&JsonWebKeySet {
        keys: keys.iter().map(|key| key.web_key()).collect(),
    })
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    setpoint_api::json::to_vec(value).expect("the value has only strings")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SigningKey;
    use crate::token::issuer::DEFAULT_URL;

    #[test]
    fn the_configuration_names_issuer_keys_and_algorithms() {
        let key = SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap();
        let issuer = Issuer::new(DEFAULT_URL, key, Vec::new());
        let configuration = String::from_utf8(super::configuration(&issuer, "10.0.0.1:6443")).unwrap();
        assert_eq!(
            configuration,
            r#"{"issuer":"https://kubernetes.default.svc","jwks_uri":"https://10.0.0.1:6443/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}"#
        );
        let keys: serde_json::Value = serde_json::from_slice(&keys(&issuer)).unwrap();
        assert_eq!(keys["keys"][0]["kid"], issuer.keys()[0].id.as_str());
    }
}
