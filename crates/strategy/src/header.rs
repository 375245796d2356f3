//! Reads the header of a stored object from its JSON in one pass, without decoding the rest.
//!
//! The pass descends only into the paths of selectable fields; everything else is skipped.

mod from_tree;

use std::fmt;

use bytes::Bytes;
use compact_str::{CompactString, ToCompactString};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

use setpoint_api::object::{Header, OwnerReference};
use setpoint_api::{Key, ResourceVersion, Stored};
use setpoint_schema::fields;

use crate::kind::{InvalidObject, KindInfo, SelectableField};

/// Reads the headers of one kind's objects.
#[derive(Debug)]
pub(crate) struct HeaderReader {
    fields: Vec<SelectableField>,
    /// The paths of the selectable fields, as a tree.
    paths: Node,
    /// `{"kind":"...","apiVersion":"...",`; its length is `body_at`.
    head: String,
    body_at: u32,
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

// === impl Reader ===

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
        }
    }

    /// A reader for kinds whose list items keep `kind` and `apiVersion`.
    pub(crate) fn with_type_meta(info: &KindInfo) -> Self {
        Self {
            body_at: 1,
            ..Self::new(info)
        }
    }

    /// Whether the JSON starts with this kind and version.
    pub(crate) fn has_own_type_meta(&self, json: &[u8]) -> bool {
        json.starts_with(self.head.as_bytes())
    }

    /// The JSON must be canonical: `kind` and `apiVersion` come first.
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
        let visitor = ObjectVisitor {
            paths: &self.paths,
            found: &mut found,
        };
        let mut deserializer = sonic_rs::Deserializer::from_slice(json);
        let meta = visitor
            .deserialize(&mut deserializer)
            .map_err(|error| InvalidObject(format!("{key}: {error}")))?;
        Ok(Header {
            key,
            uid: meta.uid,
            resource_version: version,
            generation: meta.generation,
            labels: meta.labels.0,
            fields: self.selectable(found),
            owner_references: meta.owner_references.0,
            deleting: meta.deletion_timestamp.is_some(),
            has_finalizers: meta.finalizers.0,
        })
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

    fn child(&self, name: &str) -> Option<&Node> {
        self.children
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, child)| child)
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

// === The object ===

/// Visits an object: decodes the metadata, and searches the rest for selectable fields.
struct ObjectVisitor<'a> {
    paths: &'a Node,
    found: &'a mut FieldValues,
}

impl<'de> DeserializeSeed<'de> for ObjectVisitor<'_> {
    type Value = Meta;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Meta, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectVisitor<'_> {
    type Value = Meta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta, A::Error> {
        let mut meta = Meta::default();
        while let Some(MapKey(name)) = map.next_key()? {
            if name == fields::METADATA {
                meta = map.next_value()?;
            } else if let Some(node) = self.paths.child(name) {
                map.next_value_seed(FieldVisitor {
                    node,
                    found: self.found,
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(meta)
    }
}

/// Visits a value that contains selectable fields.
struct FieldVisitor<'a> {
    node: &'a Node,
    found: &'a mut FieldValues,
}

impl<'de> DeserializeSeed<'de> for FieldVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(MapKey(name)) = map.next_key()? {
            if let Some(node) = self.node.child(name) {
                map.next_value_seed(FieldVisitor {
                    node,
                    found: self.found,
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.node.record(self.found, text);
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.node.record(self.found, if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<(), E> {
        self.node.record(self.found, &number.to_compact_string());
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<(), E> {
        self.node.record(self.found, &number.to_compact_string());
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<(), E> {
        self.node.record(self.found, &number.to_compact_string());
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A key of an object. Keys of typed objects have no escapes, so they are always borrowed.
struct MapKey<'de>(&'de str);

impl<'de> Deserialize<'de> for MapKey<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'de str>::deserialize(deserializer).map(MapKey)
    }
}

// === The metadata ===

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    uid: CompactString,
    generation: i64,
    labels: Labels,
    owner_references: Owners,
    deletion_timestamp: Option<IgnoredAny>,
    finalizers: NotEmpty,
}

/// Sorted by name, as in canonical JSON.
#[derive(Debug, Default)]
struct Labels(Box<[(CompactString, CompactString)]>);

#[derive(Debug, Default)]
struct Owners(Box<[OwnerReference]>);

/// Whether a list is nonempty.
#[derive(Debug, Default)]
struct NotEmpty(bool);

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

impl<'de> Deserialize<'de> for NotEmpty {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items: Option<Vec<IgnoredAny>> = Option::deserialize(deserializer)?;
        Ok(NotEmpty(items.is_some_and(|items| !items.is_empty())))
    }
}
