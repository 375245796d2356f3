//! Trust anchors of ClusterTrustBundles, for projected volumes.

use std::collections::BTreeSet;

use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
use k8s_openapi::api::core::v1;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;
use setpoint_api::options::ListOptions;
use setpoint_x509::pem;

use super::objects::{ObjectReader, decode};

/// The fields of a ClusterTrustBundle that volumes need.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TrustBundleView {
    spec: TrustBundleSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TrustBundleSpec {
    signer_name: String,
    trust_bundle: String,
}

impl ObjectReader {
    /// The trust anchors of a bundle by name, or of all selected bundles of a signer, as PEM blocks without duplicates.
    pub(super) async fn trust_anchors(
        &self,
        source: &v1::ClusterTrustBundleProjection,
    ) -> Result<String, String> {
        let is_optional = source.optional == Some(true);
        let bundles = match (&source.name, &source.signer_name) {
            (Some(name), _) => self.named_bundle(name, is_optional).await?,
            (None, Some(signer)) => self.signer_bundles(signer, source, is_optional).await?,
            (None, None) => {
                let message = "ClusterTrustBundle projection requires either name or signerName to be set";
                return Err(message.to_owned());
            }
        };
        normalize(&bundles)
    }

    async fn named_bundle(&self, name: &str, is_optional: bool) -> Result<Vec<TrustBundleSpec>, String> {
        let read = self.client.all::<ClusterTrustBundle>().dynamic().get(name).await;
        match read {
            Err(status) if status.is_not_found() && is_optional => Ok(Vec::new()),
            read => {
                let bundle = decode::<TrustBundleView>(read);
                let bundle = bundle.map_err(|error| format!("while getting ClusterTrustBundle: {error}"))?;
                Ok(vec![bundle.spec])
            }
        }
    }

    /// The bundles of a signer that the selector matches: an empty one matches all, an absent one none.
    async fn signer_bundles(
        &self,
        signer: &str,
        source: &v1::ClusterTrustBundleProjection,
        is_optional: bool,
    ) -> Result<Vec<TrustBundleSpec>, String> {
        let mut bundles = Vec::new();
        if let Some(selector) = &source.label_selector {
            let labels = setpoint_client::label_selector(selector).map_err(|error| error.to_string())?;
            let options = ListOptions {
                labels,
                ..ListOptions::default()
            };
            let listed = self
                .client
                .all::<ClusterTrustBundle>()
                .dynamic()
                .list(&options)
                .await;
            for stored in listed.map_err(|status| status.message.to_string())?.items {
                bundles.push(decode::<TrustBundleView>(Ok(stored))?.spec);
            }
            bundles.retain(|bundle| bundle.signer_name == signer);
        }
        if bundles.is_empty() && !is_optional {
            let message = "combination of signerName and labelSelector matched zero ClusterTrustBundles";
            return Err(message.to_owned());
        }
        Ok(bundles)
    }
}

/// The certificates of the bundles without duplicates, headers and text between them. Consumers must not depend on their order.
fn normalize(bundles: &[TrustBundleSpec]) -> Result<String, String> {
    let mut anchors = BTreeSet::new();
    for bundle in bundles {
        for anchor in CertificateDer::pem_slice_iter(bundle.trust_bundle.as_bytes()) {
            let anchor = anchor.map_err(|error| format!("while normalizing trust anchors: {error}"))?;
            anchors.insert(anchor.to_vec());
        }
    }
    let blocks = anchors.iter().map(|anchor| pem::encode(pem::CERTIFICATE, anchor));
    Ok(blocks.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use setpoint_testkit::Cluster;

    use super::*;

    const SIGNER: &str = "example.com/ca";

    /// A certificate of a CA, PEM.
    fn certificate(name: &str) -> String {
        let now = jiff::Timestamp::UNIX_EPOCH;
        setpoint_pki::WebhookPki::generate(&[name.to_owned()], now)
            .unwrap()
            .authority
    }

    async fn create(cluster: &Cluster, name: &str, stage: &str, certificates: &str) {
        let bundle = json!({
            "metadata": { "name": format!("example.com:ca:{name}"), "labels": { "stage": stage } },
            "spec": { "signerName": SIGNER, "trustBundle": certificates },
        });
        let bundle: ClusterTrustBundle = serde_json::from_value(bundle).unwrap();
        cluster.client("me").all().create(&bundle).await.unwrap();
    }

    #[track_caller]
    fn check(anchors: Result<String, String>, expected: Result<&[&String], &str>) {
        let expected = expected.map(|all| all.iter().map(|one| one.as_str()).collect::<BTreeSet<_>>());
        let anchors = anchors
            .as_ref()
            .map(|text| text.split_inclusive("-----END CERTIFICATE-----\n").collect());
        assert_eq!(anchors.map_err(|error| error.as_str()), expected);
    }

    #[tokio::test]
    async fn bundles_are_selected_by_name_or_by_signer_and_labels() {
        let cluster = Cluster::start().await;
        let [first, second] = ["first", "second"].map(certificate);
        create(&cluster, "a", "live", &first).await;
        create(&cluster, "b", "live", &format!("text\n{second}{first}")).await;
        create(&cluster, "c", "test", &second).await;
        let reader = ObjectReader::new(cluster.client("node"), Arc::new(cluster.clock.clone()));
        let anchors = async |mut source: Value| {
            source["path"] = json!("ca.pem");
            reader
                .trust_anchors(&serde_json::from_value(source).unwrap())
                .await
        };
        let of_signer = |selector: Value, optional: bool| json!({ "signerName": SIGNER, "labelSelector": selector, "optional": optional });

        check(
            anchors(json!({ "name": "example.com:ca:a" })).await,
            Ok(&[&first]),
        );
        check(anchors(of_signer(json!({}), false)).await, Ok(&[&first, &second]));
        let test = json!({ "matchLabels": { "stage": "test" } });
        check(anchors(of_signer(test, false)).await, Ok(&[&second]));
        let none = "combination of signerName and labelSelector matched zero ClusterTrustBundles";
        check(anchors(of_signer(Value::Null, false)).await, Err(none));
        check(anchors(of_signer(Value::Null, true)).await, Ok(&[]));
        check(
            anchors(json!({ "name": "absent", "optional": true })).await,
            Ok(&[]),
        );
        assert!(
            anchors(json!({ "name": "absent" }))
                .await
                .unwrap_err()
                .contains("not found")
        );
    }
}
