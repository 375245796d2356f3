//! Tests of the encryption as a whole: formats, rotation, rules and reloads.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use setpoint_api::SystemClock;

use super::*;

const SECRET: &[u8] = b"/registry/secrets/a/b";
const CONFIG_MAP: &[u8] = b"/registry/configmaps/a/b";
const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n";

/// A configuration file, which is removed with its directory.
struct ConfigFile(tempfile::TempDir);

impl ConfigFile {
    fn new(resources: &str) -> Self {
        let file = Self(tempfile::tempdir().unwrap());
        file.write(resources);
        file
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("encryption.yaml")
    }

    fn write(&self, resources: &str) {
        fs::write(self.path(), format!("{HEAD}resources:\n{resources}")).unwrap();
    }

    fn load(&self) -> Result<Arc<Encryption>, ConfigError> {
        Encryption::load(&self.path(), Arc::new(SystemClock::new()))
    }
}

/// A rule for secrets with these providers.
fn secrets(providers: &str) -> String {
    format!("- resources: [secrets]\n  providers: [{providers}]\n")
}

fn provider(cipher: &str, keys: &[(&str, u8)]) -> String {
    let keys: Vec<String> = keys
        .iter()
        .map(|(name, byte)| format!("{{name: {name}, secret: {}}}", STANDARD.encode([*byte; 32])))
        .collect();
    format!("{cipher}: {{keys: [{}]}}", keys.join(", "))
}

fn element(cipher: &str, keys: &[(&str, u8)]) -> String {
    format!("{{{}}}", provider(cipher, keys))
}

fn seal(encryption: &Encryption, key: &[u8], value: &[u8]) -> Option<Bytes> {
    let sealed = encryption.seal(key, key, value).unwrap();
    sealed.map(|sealed| sealed.bytes)
}

fn open(encryption: &Encryption, key: &[u8], value: &[u8]) -> Result<Bytes, String> {
    let opened = encryption.open(key, key, Bytes::copy_from_slice(value));
    opened
        .map(|opened| opened.bytes)
        .map_err(|error| error.to_string())
}

/// Whether a stored value is not sealed as it would be now.
fn is_stale(encryption: &Encryption, stored: &[u8]) -> bool {
    let opened = encryption.open(SECRET, SECRET, Bytes::copy_from_slice(stored));
    opened.unwrap().seal != encryption.current_seal(SECRET)
}

#[track_caller]
fn check_prefix(cipher: &str, expected: &str) {
    let file = ConfigFile::new(&secrets(&element(cipher, &[("key1", 1)])));
    let encryption = file.load().unwrap();
    let sealed = seal(&encryption, SECRET, b"value").unwrap();
    assert!(sealed.starts_with(expected.as_bytes()), "{sealed:?}");
    assert!(!sealed.windows(5).any(|window| window == b"value"));
    assert_eq!(open(&encryption, SECRET, &sealed).unwrap(), "value");
}

#[test]
fn a_sealed_value_names_its_provider_and_key() {
    check_prefix("aescbc", "k8s:enc:aescbc:v1:key1:");
    check_prefix("aesgcm", "k8s:enc:aesgcm:v1:key1:");
    check_prefix("secretbox", "k8s:enc:secretbox:v1:key1:");
}

#[test]
fn only_configured_resources_are_sealed() {
    let file = ConfigFile::new(&secrets(&element("aesgcm", &[("key1", 1)])));
    let encryption = file.load().unwrap();
    assert_eq!(seal(&encryption, CONFIG_MAP, b"value"), None);
    assert_eq!(open(&encryption, CONFIG_MAP, b"value").unwrap(), "value");
    let sealed = seal(&encryption, SECRET, b"value").unwrap();
    assert!(
        open(&encryption, CONFIG_MAP, &sealed)
            .unwrap_err()
            .ends_with("identity transformer tried to read encrypted data")
    );
    assert!(!Encryption::none().is_active());
    assert!(open(&Encryption::none(), SECRET, &sealed).is_err());
}

#[test]
fn a_value_cannot_be_moved_to_another_key() {
    let file = ConfigFile::new(&secrets(&element("aesgcm", &[("key1", 1)])));
    let encryption = file.load().unwrap();
    let sealed = seal(&encryption, SECRET, b"value").unwrap();
    let moved = open(&encryption, b"/registry/secrets/a/c", &sealed);
    assert!(
        moved
            .unwrap_err()
            .ends_with("cipher: message authentication failed")
    );
}

#[test]
fn a_value_that_is_not_sealed_needs_the_identity_provider() {
    let cbc = element("aescbc", &[("key1", 1)]);
    let strict = ConfigFile::new(&secrets(&cbc)).load().unwrap();
    assert!(
        open(&strict, SECRET, b"plain")
            .unwrap_err()
            .ends_with("no matching prefix found")
    );
    let lenient = ConfigFile::new(&secrets(&format!("{cbc}, {{identity: {{}}}}")))
        .load()
        .unwrap();
    assert_eq!(open(&lenient, SECRET, b"plain").unwrap(), "plain");
    assert!(is_stale(&lenient, b"plain"));
}

/// The first provider seals, all of them open, and what another one sealed is stale until it is written again.
#[track_caller]
fn check_rotation(old: &str, new: &str) {
    let before = ConfigFile::new(&secrets(old)).load().unwrap();
    let sealed = seal(&before, SECRET, b"value").map_or(Bytes::from_static(b"value"), |sealed| sealed);
    let after = ConfigFile::new(&secrets(new)).load().unwrap();
    assert_eq!(open(&after, SECRET, &sealed).unwrap(), "value");
    assert!(is_stale(&after, &sealed));
    let again = after.seal(SECRET, SECRET, b"value").unwrap();
    let seal = again.as_ref().map_or(SealId::NONE, |again| again.seal);
    assert_eq!(seal, after.current_seal(SECRET));
    let again = again.map_or(Bytes::from_static(b"value"), |again| again.bytes);
    assert!(!is_stale(&after, &again));
}

#[test]
fn keys_and_providers_are_rotated() {
    check_rotation(
        &element("aescbc", &[("key1", 1)]),
        &element("aescbc", &[("key2", 2), ("key1", 1)]),
    );
    let (cbc, gcm) = (
        element("aescbc", &[("key1", 1)]),
        element("aesgcm", &[("key1", 1)]),
    );
    check_rotation(&cbc, &format!("{gcm}, {cbc}"));
    check_rotation("{identity: {}}", &format!("{cbc}, {{identity: {{}}}}"));
    check_rotation(&cbc, &format!("{{identity: {{}}}}, {cbc}"));
    // The same name with another key: the next provider is tried.
    let other = element("aescbc", &[("key1", 2)]);
    check_rotation(&cbc, &format!("{other}, {cbc}"));
}

#[test]
fn the_file_is_read_again_when_it_changes() {
    let (one, two) = (
        element("aesgcm", &[("key1", 1)]),
        element("aesgcm", &[("key2", 2)]),
    );
    let file = ConfigFile::new(&secrets(&one));
    let encryption = file.load().unwrap();
    let sealed = seal(&encryption, SECRET, b"value").unwrap();
    assert_eq!(encryption.reload(), Ok(false));
    file.write(&secrets(&format!("{two}, {one}")));
    assert_eq!(encryption.reload(), Ok(true));
    assert_eq!(open(&encryption, SECRET, &sealed).unwrap(), "value");
    assert!(is_stale(&encryption, &sealed));
    file.write("no configuration");
    assert!(encryption.reload().is_err());
    let sealed = seal(&encryption, SECRET, b"value").unwrap();
    assert!(sealed.starts_with(b"k8s:enc:aesgcm:v1:key2:"));
}

#[test]
fn errors_of_the_file_are_those_of_kube_apiserver() {
    let file = ConfigFile::new(
        "- resources: [\"*.*\"]\n  providers: [{identity: {}}]\n- resources: [secrets]\n  providers: [{identity: {}}]\n",
    );
    assert_eq!(
        file.load().unwrap_err().to_string(),
        r#"error while building transformers: resource "secrets" is masked by earlier rule "*.*""#
    );
    let path = file.path();
    let path = path.display();
    file.write("- resources: [secrets]\n  provider: []\n");
    assert_eq!(
        file.load().unwrap_err().to_string(),
        format!(
            "error while parsing file: error decoding encryption provider configuration file \"{path}\": strict decoding error: unknown field \"resources[0].provider\""
        )
    );
    fs::write(file.path(), "").unwrap();
    assert_eq!(
        file.load().unwrap_err().to_string(),
        format!(
            "error while parsing file: error while loading file: encryption provider configuration file \"{path}\" is empty"
        )
    );
    fs::write(file.path(), "kind: Other\napiVersion: v1\n").unwrap();
    assert_eq!(
        file.load().unwrap_err().to_string(),
        format!(
            "error while parsing file: error decoding encryption provider configuration file \"{path}\": no kind \"Other\" is registered for version \"v1\""
        )
    );
}

/// Values that kube-apiserver 1.37 has sealed with keys of 32 equal bytes.
#[track_caller]
fn check_recorded(key: &str, provider: &str, sealed: &str) {
    let (resource, _) = key.strip_prefix("/registry/").unwrap().split_once('/').unwrap();
    let rule = format!("- resources: [{resource}]\n  providers: [{provider}]\n");
    let encryption = ConfigFile::new(&rule).load().unwrap();
    let opened = open(&encryption, key.as_bytes(), &STANDARD.decode(sealed).unwrap()).unwrap();
    assert!(opened.starts_with(b"k8s\0"), "{opened:?}");
    let name = b"sealed";
    assert!(opened.windows(name.len()).any(|window| window == name));
}

#[test]
fn what_kube_apiserver_has_sealed_is_opened() {
    check_recorded(
        "/registry/secrets/corpus/sealed",
        &element("aescbc", &[("key1", 1)]),
        "azhzOmVuYzphZXNjYmM6djE6a2V5MTrRm3dZWSMQ9+F680gSC7Rax95xx1bjngFcbByvk7B58e9i5k3bMpDLTOB48plg7Hal/GQBrasAo8LEjnCZkLTZwdBv6880B6aFAbuPeLIV7YpgmsCEwOLQBQ92iV3X/kQmUpRmWryLuhh8mrUDY2TIH4Nwo5QmWZ+v1Zzta5egv/ZKI8h3IFAymjWyiZrM93grKgRz3x7wxkhhfLlj09HMDKxLgYLUJgp+zEalxYPOl6cCwHy6evX7e6opC6R08rM=",
    );
    check_recorded(
        "/registry/configmaps/corpus/sealed",
        &element("aesgcm", &[("key1", 2)]),
        "azhzOmVuYzphZXNnY206djE6a2V5MTqvf0q3Li7tqhPaCRQ+dEJeALursS7Txfl0Ff+2YZzjFrM+wOgOslUaeYMLX7woyMyvxD08MUai44gY/ks2FKhPKH22eVf8emJno8lJQR5NaB/pexv2/nysH/mfX+jghCRkCfdZQx3jcbdpBKY9q9ct/Vk+ZpBgWFxnMsG+qgDosMw=",
    );
    check_recorded(
        "/registry/serviceaccounts/corpus/sealed",
        &element("secretbox", &[("key1", 3)]),
        "azhzOmVuYzpzZWNyZXRib3g6djE6a2V5MTp6mWyF9ew0OLV8I+Wf3W9NnIUe7DMcIa6SQkF/ZOHJhCOeIabqSHVug8diSu0gVYAhc0k381iQ1K/9V5k9ygu8T9QE0LJP5PLhiXN61uUWiJO1Y3fyUVjN2VwAtrswwnWVmzNFkxam6/TT8iTHBjuP4BG+/l4D520rOZ/sNLBPQ+1Gu72TN4UNcvJKZIW8ebbxow==",
    );
}

#[tokio::test(start_paused = true)]
async fn a_running_server_reads_the_file_again() {
    let file = ConfigFile::new(&secrets(&element("aesgcm", &[("key1", 1)])));
    let encryption = file.load().unwrap();
    let (stop, mut running) = (CancellationToken::new(), tokio::task::JoinSet::new());
    running.spawn(encryption.clone().run(true, stop.clone()));
    file.write(&secrets(&element("aesgcm", &[("key2", 2)])));
    let is_sealed_by = |prefix: &str| {
        let sealed = seal(&encryption, SECRET, b"value").unwrap();
        sealed.starts_with(prefix.as_bytes())
    };
    assert!(is_sealed_by("k8s:enc:aesgcm:v1:key1:"));
    // The clock is paused: it advances while everything else waits.
    tokio::time::sleep(2 * POLL_INTERVAL).await;
    assert!(is_sealed_by("k8s:enc:aesgcm:v1:key2:"));
    stop.cancel();
    running.join_all().await;
}

#[test]
fn a_range_is_never_sealed() {
    let all = format!(
        "- resources: [\"*.*\"]\n  providers: [{}]\n",
        element("aesgcm", &[("key1", 1)])
    );
    let encryption = ConfigFile::new(&all).load().unwrap();
    assert!(seal(&encryption, CONFIG_MAP, b"value").is_some());
    assert_eq!(seal(&encryption, b"/registry/ranges/services", b"value"), None);
}
