//! Conversion of objects of built-in kinds between protobuf and JSON, for clients, which have no shapes.
//!
//! Shapes come from the built-in pack, so custom kinds are not supported, nor are kinds and fields newer than this
//! program: such a field is lost in protobuf, though never in JSON.

use setpoint_schema::{Map, Pack, Shape, Tree, write_into};

use super::envelope::{self, TypeMeta};
use super::error::Error;
use super::reader::{DELIMITED, Reader};
use super::{decode_message, encode_object, has_protobuf_form, list};
use crate::json;
use crate::strict::{self, FieldValidation};

/// An object decoded from protobuf.
#[derive(Debug)]
pub struct BuiltinObject {
    /// With `kind` and `apiVersion`.
    pub tree: Tree,
    shape: &'static Shape,
}

/// A list decoded from protobuf. Its items are decoded one by one.
#[derive(Debug)]
pub struct BuiltinList<'a> {
    /// The metadata of the list (`ListMeta`).
    pub metadata: Tree,
    item_type: TypeMeta,
    shape: &'static Shape,
    items: Vec<&'a [u8]>,
}

impl BuiltinObject {
    /// Decodes an object in its envelope.
    pub fn open(bytes: &[u8]) -> Result<Self, Error> {
        let envelope = envelope::open(bytes)?;
        let shape = shape_of(&envelope.type_meta)?;
        Self::read(envelope.message, &envelope.type_meta, shape)
    }

    /// The object's kind.
    pub fn kind(&self) -> &str {
        self.tree.str_at(&["kind"]).unwrap_or_default()
    }

    /// The object as canonical JSON, type fields first.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(INITIAL_CAPACITY_BYTES);
        write_into(self.shape, &self.tree, &mut out);
        out.shrink_to_fit();
        out
    }

    fn read(message: &[u8], type_meta: &TypeMeta, shape: &'static Shape) -> Result<Self, Error> {
        let mut map = Map::with_capacity(8);
        map.push("kind", type_meta.kind.clone());
        map.push("apiVersion", type_meta.api_version.clone());
        decode_message(message, shape, &mut map)?;
        let tree = map.into();
        Ok(Self { tree, shape })
    }
}

impl<'a> BuiltinList<'a> {
    /// Opens the envelope of a list and splits its items.
    pub fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        let envelope = envelope::open(bytes)?;
        let TypeMeta { api_version, kind } = envelope.type_meta;
        let item = kind.strip_suffix("List").unwrap_or_default();
        let item_type = TypeMeta::new(&api_version, item);
        let (mut metadata, mut items) = (Map::default(), Vec::new());
        let mut reader = Reader::new(envelope.message);
        while let Some(tag) = reader.next()? {
            match (tag.number, tag.wire) {
                (1, DELIMITED) => decode_message(reader.delimited()?, list::metadata_shape(), &mut metadata)?,
                (2, DELIMITED) => items.push(reader.delimited()?),
                _ => reader.skip(tag.wire)?,
            }
        }
        Ok(Self {
            metadata: metadata.into(),
            shape: shape_of(&item_type)?,
            item_type,
            items,
        })
    }

    /// The items, each with the list's item type.
    pub fn items(&self) -> impl Iterator<Item = Result<BuiltinObject, Error>> {
        self.items
            .iter()
            .map(|item| BuiltinObject::read(item, &self.item_type, self.shape))
    }
}

/// Enough for most objects.
const INITIAL_CAPACITY_BYTES: usize = 4 << 10;

/// Encodes a JSON object as protobuf, in its envelope. `None` if that would lose information: the kind is unknown here or
/// has no protobuf form, or the object has unknown or duplicate fields, which the server is to report.
pub fn seal_json(json: &[u8]) -> Option<Vec<u8>> {
    let tree = json::parse(json).ok()?;
    let type_meta = TypeMeta::new(tree.str_at(&["apiVersion"])?, tree.str_at(&["kind"])?);
    let shape = shape_of(&type_meta).ok()?;
    let decoded = strict::conform_tree(tree, shape, FieldValidation::Strict).ok()?;
    Some(encode_object(shape, &decoded.tree))
}

/// Whether the objects of a resource are of a kind that has a protobuf form here. The pack has kinds but no resources;
/// the resource name of a built-in kind follows from the kind's name.
pub fn supports_resource(group: &str, version: &str, resource: &str) -> bool {
    let pack = Pack::builtin();
    let mut kinds = pack.kinds().filter(|(gvk, _)| gvk[..2] == [group, version]);
    kinds.any(|(gvk, id)| is_plural(gvk[2], resource) && has_protobuf_form(pack.shape(id)))
}

/// Whether `resource` is the plural of a kind.
fn is_plural(kind: &str, resource: &str) -> bool {
    let Some((stem, ending)) = resource.split_at_checked(kind.len()) else {
        return is_plural_of_y(kind, resource);
    };
    let is_same = stem.eq_ignore_ascii_case(kind);
    match kind.as_bytes().last() {
        Some(b'y') => is_plural_of_y(kind, resource),
        Some(b's') => is_same && matches!(ending, "" | "es"),
        _ => is_same && ending == "s",
    }
}

/// `Policy` and `policies`.
fn is_plural_of_y(kind: &str, resource: &str) -> bool {
    let (stem, other) = (kind.strip_suffix('y'), resource.strip_suffix("ies"));
    matches!((stem, other), (Some(stem), Some(other)) if stem.eq_ignore_ascii_case(other))
}

fn shape_of(type_meta: &TypeMeta) -> Result<&'static Shape, Error> {
    let (group, version) = type_meta
        .api_version
        .split_once('/')
        .unwrap_or(("", &type_meta.api_version));
    let shape = Pack::builtin().shape_of(group, version, &type_meta.kind);
    shape
        .filter(|shape| has_protobuf_form(shape))
        .ok_or_else(|| Error::NoProtobufForm(type_meta.kind.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"a","resourceVersion":"5"},"data":{"k":"v"}}"#;

    fn read(bytes: &[u8]) -> String {
        String::from_utf8(BuiltinObject::open(bytes).unwrap().to_json()).unwrap()
    }

    #[test]
    fn an_object_survives_a_round_trip() {
        let sealed = seal_json(MAP.as_bytes()).unwrap();
        assert!(sealed.starts_with(envelope::MAGIC));
        assert_eq!(read(&sealed), MAP);
    }

    #[test]
    fn the_items_of_a_list_have_its_type() {
        let shape = Pack::builtin().shape_of("", "v1", "ConfigMap").unwrap();
        let item = super::super::encode_json(shape, MAP.as_bytes()).unwrap();
        let meta = super::super::encode_json(
            list::metadata_shape(),
            br#"{"resourceVersion":"9","continue":"c"}"#,
        )
        .unwrap();
        let bytes = list::write(&TypeMeta::new("v1", "ConfigMapList"), &meta, &[&item, &item]);
        let list = BuiltinList::open(&bytes).unwrap();
        assert_eq!(list.metadata.str_at(&["resourceVersion"]), Some("9"));
        let items: Vec<_> = list.items().map(|item| item.unwrap().to_json()).collect();
        assert_eq!(items, [MAP.as_bytes(), MAP.as_bytes()]);
    }

    #[track_caller]
    fn check_sealed(json: &str, expected: bool) {
        assert_eq!(seal_json(json.as_bytes()).is_some(), expected, "{json}");
    }

    #[test]
    fn an_object_that_would_lose_fields_is_not_encoded() {
        check_sealed(
            r#"{"kind":"Scale","apiVersion":"autoscaling/v1","spec":{"replicas":2}}"#,
            true,
        );
        check_sealed(r#"{"kind":"ConfigMap","apiVersion":"v1","dta":{}}"#, false);
        check_sealed(
            r#"{"kind":"ConfigMap","apiVersion":"v1","data":{},"data":{}}"#,
            false,
        );
        check_sealed(
            r#"{"kind":"Foo","apiVersion":"samplecontroller.k8s.io/v1alpha1"}"#,
            false,
        );
        check_sealed(r#"{"kind":"ConfigMap"}"#, false);
        check_sealed("no JSON", false);
    }

    #[test]
    fn an_unknown_kind_is_an_error() {
        let sealed = envelope::seal(&TypeMeta::new("apps/v7", "Deployment"), b"");
        let error = BuiltinObject::open(&sealed).unwrap_err();
        assert_eq!(error.to_string(), "kind Deployment has no protobuf form");
    }

    #[track_caller]
    fn check_supported(resource: &str, expected: bool) {
        let [group, version, resource] = resource.split('/').collect::<Vec<_>>()[..] else {
            panic!("{resource:?} is a group, a version and a resource");
        };
        assert_eq!(
            supports_resource(group, version, resource),
            expected,
            "{resource}"
        );
    }

    #[test]
    fn built_in_resources_are_known_by_their_names() {
        for known in [
            "/v1/pods",
            "/v1/endpoints",
            "apps/v1/statefulsets",
            "networking.k8s.io/v1/ingresses",
            "networking.k8s.io/v1/networkpolicies",
            "storage.k8s.io/v1/storageclasses",
            "storage.k8s.io/v1/csistoragecapacities",
            "discovery.k8s.io/v1/endpointslices",
            "apiextensions.k8s.io/v1/customresourcedefinitions",
        ] {
            check_supported(known, true);
        }
        for unknown in [
            "samplecontroller.k8s.io/v1alpha1/foos",
            "apps/v7/deployments",
            "/v1/pod",
            "/v1/podses",
            "/v1/y",
        ] {
            check_supported(unknown, false);
        }
    }
}
