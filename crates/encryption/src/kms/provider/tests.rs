//! Tests with a plugin in the process that encrypts by inverting bits.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use setpoint_api::SystemClock;

use super::*;
use crate::kms::messages::EncryptResponse;

const KEY: &[u8] = b"/registry/secrets/a/b";

/// A plugin whose key has a number.
#[derive(Debug, Default)]
struct Plugin {
    key: AtomicU32,
    decrypted: AtomicU32,
    unhealthy: AtomicU32,
}

impl KmsService for Arc<Plugin> {
    fn status(&self) -> Result<StatusResponse, String> {
        Ok(StatusResponse {
            version: "v2".to_owned(),
            healthz: match self.unhealthy.load(Relaxed) {
                0 => "ok".to_owned(),
                _ => "on fire".to_owned(),
            },
            key_id: self.key.load(Relaxed).to_string(),
        })
    }

    fn encrypt(&self, plaintext: &[u8]) -> Result<EncryptResponse, String> {
        Ok(EncryptResponse {
            ciphertext: plaintext.iter().map(|byte| !byte).collect(),
            key_id: self.key.load(Relaxed).to_string(),
            annotations: HashMap::from([("local.example.com".to_owned(), vec![1])]),
        })
    }

    fn decrypt(&self, request: DecryptRequest) -> Result<Vec<u8>, String> {
        assert_eq!(request.annotations.len(), 1);
        self.decrypted.fetch_add(1, Relaxed);
        if self.unhealthy.load(Relaxed) != 0 {
            return Err("on fire".to_owned());
        }
        Ok(request.ciphertext.iter().map(|byte| !byte).collect())
    }
}

fn provider(plugin: &Arc<Plugin>) -> KmsProvider {
    let provider = KmsProvider::new("a", Box::new(plugin.clone()), Arc::new(SystemClock::new()));
    provider.probe().unwrap();
    provider
}

#[test]
fn a_server_reads_what_another_one_sealed() {
    let plugin = Arc::new(Plugin::default());
    let (sealed, _) = provider(&plugin).seal(b"value", KEY).unwrap();
    let reader = provider(&plugin);
    assert_eq!(reader.open(&sealed, KEY).unwrap().0, b"value");
    assert_eq!(reader.open(&sealed, KEY).unwrap().0, b"value");
    assert_eq!(plugin.decrypted.load(Relaxed), 1);
    assert!(reader.open(&sealed, b"/registry/secrets/a/c").is_err());
}

#[test]
fn a_new_key_of_the_plugin_makes_values_stale() {
    let plugin = Arc::new(Plugin::default());
    let provider = provider(&plugin);
    let (sealed, seal) = provider.seal(b"value", KEY).unwrap();
    assert_eq!(provider.open(&sealed, KEY).unwrap().1, seal);
    assert_eq!(provider.current_seal(), seal);
    plugin.key.store(1, Relaxed);
    provider.probe().unwrap();
    assert_eq!(provider.open(&sealed, KEY).unwrap().1, seal);
    assert_ne!(provider.current_seal(), seal);
}

#[test]
fn an_unhealthy_plugin_is_reported_and_its_seed_seals_for_a_while() {
    let plugin = Arc::new(Plugin::default());
    let provider = provider(&plugin);
    plugin.unhealthy.store(1, Relaxed);
    assert_eq!(
        provider.probe().unwrap_err(),
        "kmsv2 Provider a is not healthy, error: got unexpected healthz status: on fire"
    );
    assert!(provider.health().is_err());
    assert!(provider.seal(b"value", KEY).is_ok());
}

/// A clock that the test sets.
#[derive(Debug, Default)]
struct Seconds(AtomicU32);

impl Clock for Seconds {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Relaxed).into()).unwrap()
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        unreachable!("nothing sleeps here")
    }
}

#[test]
fn a_plugin_that_fails_is_called_again_after_a_pause() {
    let plugin = Arc::new(Plugin::default());
    let (sealed, _) = provider(&plugin).seal(b"value", KEY).unwrap();
    let clock = Arc::new(Seconds::default());
    let reader = KmsProvider::new("a", Box::new(plugin.clone()), clock.clone());
    plugin.unhealthy.store(1, Relaxed);
    for _ in 0..3 {
        assert_eq!(
            reader.open(&sealed, KEY).unwrap_err(),
            "failed to decrypt DEK, error: on fire"
        );
    }
    assert_eq!(plugin.decrypted.load(Relaxed), 1);
    plugin.unhealthy.store(0, Relaxed);
    clock.0.store(5, Relaxed);
    assert_eq!(reader.open(&sealed, KEY).unwrap().0, b"value");
}

#[test]
fn keys_of_any_size_are_remembered_by_a_hash() {
    let object = |byte: u8| EncryptedObject {
        annotations: HashMap::from([("a.example.com".to_owned(), vec![byte; 30_000])]),
        ..EncryptedObject::default()
    };
    assert_eq!(source_id(&object(1)), source_id(&object(1)));
    assert_ne!(source_id(&object(1)), source_id(&object(2)));
}

#[test]
fn a_provider_without_a_seed_does_not_seal() {
    let plugin = Arc::new(Plugin::default());
    let provider = KmsProvider::new("a", Box::new(plugin), Arc::new(SystemClock::new()));
    assert!(provider.seal(b"value", KEY).is_err());
}

#[test]
fn a_malformed_value_is_an_error() {
    let provider = provider(&Arc::default());
    assert!(provider.open(b"\xff", KEY).is_err());
    assert_eq!(provider.open(b"", KEY).unwrap_err(), "encrypted data is empty");
}
