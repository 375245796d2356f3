//! Reads the header of a stored object from its JSON in one pass, without decoding the rest.
//!
//! The pass descends only into the paths of selectable fields; everything else is skipped.

mod from_tree;

use std::fmt;

use bytes::Bytes;
use compact_str::{CompactString, ToCompactString};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de};

use setpoint_api::object::{Header, OwnerReference};
use setpoint_api::{Key, ResourceVersion, Stored};
use setpoint_codec::json::scan;
use setpoint_schema::fields;

use crate::kind::{InvalidObject, KindInfo, SelectableField};

/// Reads the headers of one kind's objects.
#[derive(Debug)]
pub(crate) struct HeaderReader {
    fields: Vec<SelectableField>,
    /// The paths of the selectable fields, as a tree.
    paths: Node,
    /// `{"kind":"...","apiVersion":"...",`, with the length `body_at`; of custom kinds the keys are sorted.
    head: String,
    body_at: u32,
    kind: String,
    api_version: String,
}

/// A node of the path tree.
#[derive(Debug, Default)]
struct Node {
    children: Vec<(String, Node)>,
    /// The fields with this path, as (index in the kind's list, rank of the path).
    values: Vec<(usize, usize)>,
}

/// The values read so far, by field: the rank of the path and the text.
type FieldValues = Vec<Option<(usize, CompactString)>>;

// === impl HeaderReader ===

impl HeaderReader {
    pub(crate) fn new(info: &KindInfo) -> Self {
        let mut paths = Node::default();
        for (at, field) in info.fields.iter().enumerate() {
            for (rank, path) in field.paths.iter().enumerate() {
                paths.reach(path).values.push((at, rank));
            }
        }
        let head = format!(
            r#"{{"kind":"{}","apiVersion":"{}","#,
            info.gvk.kind,
            info.gvk.api_version()
        );
        Self {
            fields: info.fields.clone(),
            paths,
            body_at: u32::try_from(head.len()).expect("a kind's name fits into 32 bits"),
            head,
            kind: info.gvk.kind.to_string(),
            api_version: info.gvk.api_version().to_string(),
        }
    }

    /// A reader for custom kinds: their keys are sorted, and list items keep `kind` and `apiVersion`.
    pub(crate) fn of_custom(info: &KindInfo) -> Self {
        let (kind, api_version) = (&info.gvk.kind, info.gvk.api_version());
        Self {
            body_at: 1,
            head: format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}","#),
            ..Self::new(info)
        }
    }

    /// Whether the JSON has this kind and version. The keys of a custom object are sorted: a field of its own may come before
    /// them, or between the two.
    pub(crate) fn has_own_type_meta(&self, json: &[u8]) -> bool {
        let has = |name, value: &str| {
            let found = scan::find_member(json, name).unwrap_or_default();
            matches!(found, [b'"', text @ .., b'"'] if text == value.as_bytes())
        };
        json.starts_with(self.head.as_bytes())
            || (has(fields::API_VERSION, &self.api_version) && has(fields::KIND, &self.kind))
    }

    /// The JSON must be canonical.
    pub(crate) fn stored(
        &self,
        key: Key,
        version: ResourceVersion,
        json: Bytes,
    ) -> Result<Stored, InvalidObject> {
        let header = self.header(key, version, &json)?;
        Ok(Stored::new(header, json, self.body_at))
    }

    fn header(&self, key: Key, version: ResourceVersion, json: &[u8]) -> Result<Header, InvalidObject> {
        let mut found = vec![None; self.fields.len()];
        let meta = self
            .read(json, &mut found)
            .map_err(|error| InvalidObject::Malformed(format!("{key}: {error}")))?;
        Ok(Header {
            key,
            uid: meta.uid,
            resource_version: version,
            generation: meta.generation,
            labels: meta.labels.0,
            fields: self.selectable(found),
            owner_references: meta.owner_references.0,
            deleting: meta.deleting,
            has_finalizers: meta.has_finalizers,
        })
    }

    /// Reads the metadata, and searches the rest for selectable fields.
    fn read(&self, json: &[u8], found: &mut FieldValues) -> Result<Meta, ReadError> {
        let mut meta = Meta::default();
        for member in scan::members(json) {
            let (name, value) = member?;
            if name == fields::METADATA.as_bytes() {
                meta = Meta::read(value)?;
            } else if let Some(node) = self.paths.child(name) {
                node.search(value, found)?;
            }
        }
        Ok(meta)
    }

    /// Empty values are omitted: an absent field counts as empty.
    fn selectable(&self, found: FieldValues) -> Box<[(CompactString, CompactString)]> {
        let mut values: Vec<(CompactString, CompactString)> = self
            .fields
            .iter()
            .zip(found)
            .map(|(field, found)| {
                let value = found.map_or_else(|| field.absent.into(), |(_, text)| text);
                (field.label.as_str().into(), value)
            })
            .filter(|(_, value)| !value.is_empty())
            .collect();
        values.sort_unstable();
        values.into_boxed_slice()
    }
}

// === impl Node ===

impl Node {
    fn reach(&mut self, path: &[String]) -> &mut Node {
        let Some((first, rest)) = path.split_first() else {
            return self;
        };
        let at = self.children.iter().position(|(name, _)| name == first);
        let at = at.unwrap_or_else(|| {
            self.children.push((first.clone(), Node::default()));
            self.children.len() - 1
        });
        self.children[at].1.reach(rest)
    }

    fn child(&self, name: &[u8]) -> Option<&Node> {
        self.children
            .iter()
            .find(|(key, _)| key.as_bytes() == name)
            .map(|(_, child)| child)
    }

    /// Searches a value for selectable fields. The text of a field is that of a string, a number or a boolean.
    fn search(&self, json: &[u8], found: &mut FieldValues) -> Result<(), ReadError> {
        match json.first() {
            Some(b'{') => {
                for member in scan::members(json) {
                    let (name, value) = member?;
                    if let Some(node) = self.child(name) {
                        node.search(value, found)?;
                    }
                }
            }
            Some(b'[') | None => {}
            Some(b'"') => self.record(found, &serde_json::from_slice::<CompactString>(json)?),
            Some(b't' | b'f' | b'n') => {
                if let Some(value) = serde_json::from_slice::<Option<bool>>(json)? {
                    self.record(found, if value { "true" } else { "false" });
                }
            }
            Some(_) => self.record(found, &number_text(json)?),
        }
        Ok(())
    }

    fn record(&self, found: &mut FieldValues, text: &str) {
        for (field, rank) in &self.values {
            let better = found[*field].as_ref().is_none_or(|(best, _)| rank < best);
            if better && !text.is_empty() {
                found[*field] = Some((*rank, text.into()));
            }
        }
    }
}

fn number_text(json: &[u8]) -> Result<CompactString, serde_json::Error> {
    let number: serde_json::Number = serde_json::from_slice(json)?;
    Ok(match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(number), ..) => number.to_compact_string(),
        (_, Some(number), _) => number.to_compact_string(),
        (_, _, number) => number.unwrap_or_default().to_compact_string(),
    })
}

// === The metadata ===

/// Why a stored object cannot be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Malformed(#[from] scan::MalformedJson),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// The fields of `metadata` that a header has.
#[derive(Debug, Default)]
struct Meta {
    uid: CompactString,
    generation: i64,
    labels: Labels,
    owner_references: Owners,
    deleting: bool,
    has_finalizers: bool,
}

impl Meta {
    fn read(json: &[u8]) -> Result<Self, ReadError> {
        let mut meta = Self::default();
        for member in scan::members(json) {
            let (name, value) = member?;
            match name {
                b"uid" => meta.uid = serde_json::from_slice(value)?,
                b"generation" => meta.generation = serde_json::from_slice(value)?,
                b"labels" => meta.labels = serde_json::from_slice(value)?,
                b"ownerReferences" => meta.owner_references = serde_json::from_slice(value)?,
                b"deletionTimestamp" => meta.deleting = value != b"null",
                b"finalizers" => meta.has_finalizers = value != b"null" && value != b"[]",
                _ => {}
            }
        }
        Ok(meta)
    }
}

/// Sorted by name, as in canonical JSON.
#[derive(Debug, Default)]
struct Labels(Box<[(CompactString, CompactString)]>);

#[derive(Debug, Default)]
struct Owners(Box<[OwnerReference]>);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut pairs: Vec<(CompactString, CompactString)> = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                pairs.sort_unstable();
                Ok(Labels(pairs.into_boxed_slice()))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Labels, E> {
                Ok(Labels::default())
            }
        }

        deserializer.deserialize_any(Pairs)
    }
}

impl<'de> Deserialize<'de> for Owners {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Reference {
            uid: CompactString,
            kind: CompactString,
            name: CompactString,
            api_version: CompactString,
            controller: Option<bool>,
            block_owner_deletion: Option<bool>,
        }

        let references: Option<Vec<Reference>> = Option::deserialize(deserializer)?;
        let owner = |reference: Reference| OwnerReference {
            uid: reference.uid,
            kind: reference.kind,
            name: reference.name,
            api_version: reference.api_version,
            controller: reference.controller.unwrap_or_default(),
            block_owner_deletion: reference.block_owner_deletion.unwrap_or_default(),
        };
        Ok(Owners(references.into_iter().flatten().map(owner).collect()))
    }
}
