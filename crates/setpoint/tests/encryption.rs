//! Encryption at rest of a server's data directory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use cluster::Cluster;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use tempfile::TempDir;

/// 32 equal bytes in base 64.
const KEYS: [(&str, &str); 2] = [
    ("key1", "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="),
    ("key2", "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="),
];

/// Starts a server that encrypts secrets with these keys, of which the first one encrypts.
fn start(dir: &Arc<TempDir>, keys: &[(&str, &str)]) -> Cluster {
    let keys: Vec<String> = keys
        .iter()
        .map(|(name, secret)| format!("{{name: {name}, secret: {secret}}}"))
        .collect();
    let file = dir.path().join("encryption.yaml");
    let keys = keys.join(", ");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers: [{{aesgcm: {{keys: [{keys}]}}}}]\n"
    );
    fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    Cluster::start(dir, &["--nodes=0", "--encryption-provider-config", &file])
}

fn treasure() -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some("treasure".to_owned());
    let value = ByteString(b"gold".to_vec());
    secret.data = Some(BTreeMap::from([("chest".to_owned(), value)]));
    secret
}

/// Whether any file of the store has these bytes.
fn is_stored(dir: &Path, bytes: &str) -> bool {
    let files = fs::read_dir(dir.join("store")).unwrap();
    let mut contents = files.map(|file| fs::read(file.unwrap().path()).unwrap());
    contents.any(|content| {
        content
            .windows(bytes.len())
            .any(|window| window == bytes.as_bytes())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_secrets_are_encrypted_and_rewritten_with_a_new_key() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let cluster = start(&dir, &KEYS[..1]);
    let secrets = cluster.client().namespaced::<Secret>("default");
    secrets.create(&treasure()).await.unwrap();
    cluster.kill();
    assert!(!is_stored(dir.path(), "Z29sZA=="));
    assert!(is_stored(dir.path(), "k8s:enc:aesgcm:v1:key1:"));

    let cluster = start(&dir, &[KEYS[1], KEYS[0]]);
    let secrets = cluster.client().namespaced::<Secret>("default");
    let stored = secrets.get("treasure").await.unwrap();
    assert!(!is_stored(dir.path(), "k8s:enc:aesgcm:v1:key2:"));
    let mut same = stored.to_owned().unwrap();
    same.metadata.resource_version = None;
    let rewritten = secrets.update(&same).await.unwrap();
    assert_ne!(rewritten.resource_version(), stored.resource_version());
    let again = secrets.update(&same).await.unwrap();
    assert_eq!(again.resource_version(), rewritten.resource_version());
    cluster.kill();
    assert!(is_stored(dir.path(), "k8s:enc:aesgcm:v1:key2:"));

    // The old key is gone, and with it only what was superseded.
    let cluster = start(&dir, &KEYS[1..]);
    let secrets = cluster.client().namespaced::<Secret>("default");
    let data = secrets.get("treasure").await.unwrap().to_owned().unwrap().data;
    assert_eq!(data.unwrap()["chest"].0, b"gold");
}
