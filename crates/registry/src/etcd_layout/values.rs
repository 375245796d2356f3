//! Values in Kubernetes' etcd: `k8s\0` and a protobuf message for most built-in kinds, JSON with a line break for
//! CustomResourceDefinitions, APIServices and custom resources. No value has a resource version: it is etcd's revision.
//!
//! A value may be in any version of its kind, since it was written by an earlier server. It is decoded as a request in that
//! version would be: fields that the version does not have are dropped, defaults are set, and it is converted to the storage
//! version.
//!
//! The map has a range as it is stored: `ranges` decodes it.

use std::collections::HashMap;
use std::sync::Arc;

use setpoint_api::options::FieldValidation;
use setpoint_api::{Key, ResourceVersion};
use setpoint_codec::json;
use setpoint_codec::protobuf::{self, TypeMeta, envelope};
use setpoint_schema::{CanonicalJson, Map, Pack, Shape, Tree, fields};
use setpoint_store::{Put, Revision};
use setpoint_strategy::{EtcdEncoding, Kind, Kinds, custom};

use crate::{key, stored_object};

/// The encoding of every kind.
#[derive(Debug)]
pub(super) struct ValueLayout {
    /// The built-in kinds in their storage versions, by the segment of the map's keys.
    stored: HashMap<String, Arc<dyn Kind>>,
    /// All versions of the built-in kinds, by `apiVersion` and `kind`.
    versions: HashMap<(String, String), Arc<dyn Kind>>,
    /// The shape of the metadata of custom resources.
    custom: Shape,
}

impl ValueLayout {
    pub(super) fn new(kinds: &Kinds) -> Self {
        let stored = kinds.iter().filter(|kind| kind.info().is_storage_version());
        let by_segment = |kind: &Arc<dyn Kind>| {
            let segment = kind.info().storage.group_resource().to_string();
            (segment, kind.clone())
        };
        let by_type = |kind: &Arc<dyn Kind>| {
            let gvk = &kind.info().gvk;
            (
                (gvk.api_version().to_string(), gvk.kind.to_string()),
                kind.clone(),
            )
        };
        Self {
            stored: stored.map(by_segment).collect(),
            versions: kinds.iter().map(by_type).collect(),
            custom: custom::common_shape("custom"),
        }
    }

    /// The built-in kind in its storage version, by the segment of the map's keys.
    pub(super) fn find_stored(&self, segment: &str) -> Option<&Arc<dyn Kind>> {
        self.stored.get(segment)
    }

    /// The bytes in etcd of a value of the map.
    pub(super) fn encode(&self, put: &Put) -> Result<Vec<u8>, String> {
        let (segment, object_key) = key::split(&put.key).ok_or("not the key of an object")?;
        if segment == key::RANGES {
            return Ok(put.value.to_vec());
        }
        let Some(kind) = self.stored.get(segment) else {
            return Ok(with_line_break(match put.stamp {
                Some(offset) => stored_object::without_version(&put.value, offset),
                None => put.value.to_vec(),
            }));
        };
        let object_key: Key = object_key.parse().map_err(|error| format!("{error:?}"))?;
        let stored = kind.stored(object_key, ResourceVersion::ZERO, put.value.clone());
        let tree = stored.and_then(|stored| kind.decode_stored(&stored));
        let mut tree = tree.map_err(|error| error.to_string())?;
        if let Some(Tree::Map(metadata)) = tree.find_mut(fields::METADATA) {
            metadata.remove(fields::RESOURCE_VERSION);
        }
        encode_tree(&**kind, tree)
    }

    /// The value of the map of bytes in etcd that were written at `revision`.
    pub(super) fn decode(&self, map_key: &[u8], value: &[u8], revision: Revision) -> Result<Vec<u8>, String> {
        let (segment, _) = key::split(map_key).ok_or("not the key of an object")?;
        if segment == key::RANGES {
            return Ok(value.to_vec());
        }
        let written = match self.stored.get(segment) {
            Some(kind) => self.decode_builtin(kind, value)?,
            None => self.decode_custom(value)?,
        };
        Ok(stored_object::stamped(&written, key::version(revision)))
    }

    fn decode_builtin(&self, stored: &Arc<dyn Kind>, value: &[u8]) -> Result<CanonicalJson, String> {
        let (type_meta, mut tree) = match value.starts_with(envelope::MAGIC) {
            true => decode_protobuf(value)?,
            false => decode_json(value)?,
        };
        let of_type = (type_meta.api_version.to_string(), type_meta.kind.to_string());
        let (kind, is_other_version) = match self.versions.get(&of_type) {
            Some(kind) => (kind, false),
            None => (stored, true),
        };
        if kind.info().storage != stored.info().storage {
            return Err(format!(
                "{}, Kind={} is not the kind of the key",
                of_type.0, of_type.1
            ));
        }
        if is_other_version {
            if kind
                .info()
                .rules
                .upstream
                .etcd_encoding
                .is_json_in(version_of(&type_meta))
            {
                kind.convert_from_etcd(&mut tree);
            }
            name_kind(&mut tree, &kind.info().gvk.api_version());
        }
        let conformed = kind.conform(tree, FieldValidation::Ignore);
        let mut tree = conformed.map_err(|error| error.to_string())?.tree;
        let prepared = kind.prepare_input(&mut tree);
        let written = prepared.and_then(|()| stored.write(&tree));
        written.map_err(|error| error.to_string())
    }

    fn decode_custom(&self, value: &[u8]) -> Result<CanonicalJson, String> {
        let tree = json::parse(value).map_err(|error| error.to_string())?;
        let written = setpoint_schema::write_sorted(&self.custom, &tree);
        match written.resource_version_offset {
            Some(_) => Ok(written),
            None => Err("the object has no metadata".to_owned()),
        }
    }
}

/// Encodes an object of a built-in kind, in the storage version, as Kubernetes stores it.
pub(super) fn encode_tree(kind: &dyn Kind, mut tree: Tree) -> Result<Vec<u8>, String> {
    let gvk = &kind.info().gvk;
    match kind.info().rules.upstream.etcd_encoding {
        EtcdEncoding::Protobuf => Ok(protobuf::encode_object(kind.stored_shape(), &tree)),
        EtcdEncoding::ProtobufIn(version) => {
            let shape = Pack::builtin().shape_of(&gvk.group, version, &gvk.kind);
            let shape = shape.ok_or_else(|| format!("no type facts of {version}"))?;
            name_kind(&mut tree, &format!("{}/{version}", gvk.group));
            Ok(protobuf::encode_object(shape, &tree))
        }
        EtcdEncoding::Json => Ok(with_line_break(write_json(kind, &tree))),
        EtcdEncoding::JsonIn(version) => {
            // The canonical form has the fields that are always written.
            let canonical = json::parse(&write_json(kind, &tree));
            let mut tree = canonical.map_err(|error| error.to_string())?;
            kind.convert_to_etcd(&mut tree);
            name_kind(&mut tree, &format!("{}/{version}", gvk.group));
            Ok(with_line_break(json::write(&tree)))
        }
    }
}

fn write_json(kind: &dyn Kind, tree: &Tree) -> Vec<u8> {
    let mut json = Vec::new();
    setpoint_schema::write_into(kind.stored_shape(), tree, &mut json);
    json
}

fn decode_protobuf(value: &[u8]) -> Result<(TypeMeta, Tree), String> {
    let envelope = envelope::open(value).map_err(|error| error.to_string())?;
    let TypeMeta { api_version, kind } = &envelope.type_meta;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let shape = Pack::builtin().shape_of(group, version, kind);
    let shape = shape.filter(|shape| protobuf::has_protobuf_form(shape));
    let shape = shape.ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let mut map = Map::with_capacity(8);
    map.push(fields::KIND, kind.clone());
    map.push(fields::API_VERSION, api_version.clone());
    protobuf::decode_message(envelope.message, shape, &mut map).map_err(|error| error.to_string())?;
    Ok((envelope.type_meta, map.into()))
}

fn version_of(type_meta: &TypeMeta) -> &str {
    let api_version = &type_meta.api_version;
    api_version
        .rsplit_once('/')
        .map_or(api_version, |(_, version)| version)
}

fn decode_json(value: &[u8]) -> Result<(TypeMeta, Tree), String> {
    let tree = json::parse(value).map_err(|error| error.to_string())?;
    let text = |field| tree.str_at(&[field]).unwrap_or_default();
    Ok((TypeMeta::new(text(fields::API_VERSION), text(fields::KIND)), tree))
}

fn name_kind(tree: &mut Tree, api_version: &str) {
    tree.set(&[fields::API_VERSION], api_version);
}

fn with_line_break(mut json: Vec<u8>) -> Vec<u8> {
    json.push(b'\n');
    json
}

#[cfg(test)]
mod tests;
