//! Files of a volume, from the data of an object.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;

use super::objects::{ConfigMapData, SecretData};

/// The files of a volume, by their path in it.
pub(super) type Payload = BTreeMap<String, ProjectedFile>;

/// A file of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProjectedFile {
    pub(super) data: Vec<u8>,
    pub(super) mode: u32,
    /// The user that owns it, if not root.
    pub(super) owner: Option<i64>,
}

impl ProjectedFile {
    pub(super) fn new(data: Vec<u8>, mode: i32) -> Self {
        Self {
            data,
            mode: u32::try_from(mode).unwrap_or_default(),
            owner: None,
        }
    }
}

/// The files of a ConfigMap: all keys, or those that the items name.
pub(super) fn of_config_map(
    data: &ConfigMapData,
    items: Option<&[v1::KeyToPath]>,
    mode: i32,
    optional: bool,
) -> Result<Payload, String> {
    let text = data.data.iter().map(|(key, text)| (key, text.as_bytes()));
    let binary = data
        .binary_data
        .iter()
        .map(|(key, bytes)| (key, bytes.0.as_slice()));
    let all: BTreeMap<_, _> = binary.chain(text).collect();
    select(
        &all,
        items,
        (mode, optional),
        "configmap references non-existent config key",
    )
}

/// The files of a Secret.
pub(super) fn of_secret(
    data: &SecretData,
    items: Option<&[v1::KeyToPath]>,
    mode: i32,
    optional: bool,
) -> Result<Payload, String> {
    let all: BTreeMap<_, _> = data
        .data
        .iter()
        .map(|(key, bytes)| (key, bytes.0.as_slice()))
        .collect();
    select(
        &all,
        items,
        (mode, optional),
        "references non-existent secret key",
    )
}

fn select(
    all: &BTreeMap<&String, &[u8]>,
    items: Option<&[v1::KeyToPath]>,
    (mode, optional): (i32, bool),
    missing: &str,
) -> Result<Payload, String> {
    let items = items.unwrap_or_default();
    if items.is_empty() {
        let file =
            |(key, data): (&&String, &&[u8])| ((*key).clone(), ProjectedFile::new(data.to_vec(), mode));
        return Ok(all.iter().map(file).collect());
    }
    let mut files = Payload::new();
    for item in items {
        match all.get(&item.key) {
            Some(data) => {
                let file = ProjectedFile::new(data.to_vec(), item.mode.unwrap_or(mode));
                files.insert(item.path.clone(), file);
            }
            None if optional => {}
            None => return Err(format!("{missing}: {}", item.key)),
        }
    }
    Ok(files)
}
