//! Discovery of a cluster's CA by a node that has a hash of it only.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use setpoint_api::Gvr;
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Client, Kubeconfig};
use setpoint_pki::with_public_key_pin;

use super::Error;

/// The key of the kubeconfig in the ConfigMap.
const KUBECONFIG: &str = "kubeconfig";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClusterInfo {
    data: BTreeMap<String, String>,
}

/// The CA of the server at this URL. The server is not verified when its bundle is read, so that of the bundle only the
/// certificates whose key has the pin are trusted: the sender of the response may have added others.
pub async fn discover(server: &str, pin: &str) -> Result<Vec<u8>, Error> {
    let connection = Connection {
        server: server.to_owned(),
        insecure_skip_tls_verify: true,
        ..Connection::default()
    };
    let config_maps = Gvr::new("", "v1", "configmaps");
    let client = Client::connect(&connection).map_err(|error| Error::Connect(error.to_string()))?;
    let info = client.dynamic(config_maps, "kube-public");
    let info = info.get("cluster-info").await?;
    let info: ClusterInfo = info
        .decode()
        .map_err(|error| Error::ClusterInfo(error.to_string()))?;
    let kubeconfig = info.data.get(KUBECONFIG);
    let kubeconfig = kubeconfig.ok_or_else(|| Error::ClusterInfo("it has no kubeconfig".to_owned()))?;
    pinned(&authority(kubeconfig)?, pin)
}

/// The CA bundle in a kubeconfig without users.
fn authority(kubeconfig: &str) -> Result<Vec<u8>, Error> {
    let unusable = |error: &dyn std::fmt::Display| Error::ClusterInfo(error.to_string());
    let kubeconfig = Kubeconfig::parse(kubeconfig).map_err(|error| unusable(&error))?;
    let cluster = kubeconfig.clusters.first();
    let data = cluster.and_then(|cluster| cluster.cluster.certificate_authority_data.as_deref());
    let data = data.ok_or_else(|| unusable(&"its kubeconfig has no CA"))?;
    STANDARD.decode(data).map_err(|error| unusable(&error))
}

fn pinned(authority: &[u8], pin: &str) -> Result<Vec<u8>, Error> {
    let pinned = with_public_key_pin(authority, pin)?;
    match pinned.is_empty() {
        true => Err(Error::Pin(pin.to_owned())),
        false => Ok(pinned.into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;
    use setpoint_pki::public_key_pins;

    use super::*;
    use crate::server::ServerTls;

    #[test]
    fn a_ca_is_trusted_by_the_pin_of_its_key_only() {
        let clock = SystemClock::new();
        let certificate = ServerTls::self_signed("ca", &[], setpoint_api::Clock::now(&clock));
        let certificate = certificate.unwrap().certificate;
        let data = STANDARD.encode(&certificate);
        let kubeconfig =
            format!("clusters: [{{ name: '', cluster: {{ certificate-authority-data: {data} }} }}]");
        let found = authority(&kubeconfig).unwrap();
        let pin = public_key_pins(certificate.as_bytes()).unwrap().remove(0);
        let trusted = pinned(&found, &pin).unwrap();
        assert_eq!(public_key_pins(&trusted).unwrap(), [pin]);
        let other = format!("sha256:{}", "0".repeat(64));
        let error = pinned(&found, &other).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("none of the cluster's CAs has the expected public key {other}")
        );
    }
}
