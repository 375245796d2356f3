//! Documents of built-in kinds between protobuf and JSON, for one who knows no shapes: a client.
//!
//! The pack that is built in says what a kind looks like, so nothing can be said here about custom kinds, nor about a
//! kind or a field that came after this program: such a field is lost in protobuf, though never in JSON.

use setpoint_schema::{Map, Pack, Shape, Tree, write_into};

use super::envelope::{self, TypeMeta};
use super::error::Error;
use super::reader::{DELIMITED, Reader};
use super::{decode_message, encode_object, has_form, list};
use crate::json;
use crate::strict::{self, Validation};

/// One document that came as protobuf.
#[derive(Debug)]
pub struct Document {
    /// With `kind` and `apiVersion`.
    pub tree: Tree,
    shape: &'static Shape,
}

/// A list that came as protobuf. Its items are read one by one.
#[derive(Debug)]
pub struct Documents<'a> {
    /// What is said of the list as a whole.
    pub metadata: Tree,
    of: TypeMeta,
    shape: &'static Shape,
    items: Vec<&'a [u8]>,
}

impl Document {
    /// Opens an envelope and reads what is in it.
    pub fn open(bytes: &[u8]) -> Result<Self, Error> {
        let envelope = envelope::open(bytes)?;
        let shape = shape_of(&envelope.type_meta)?;
        Self::read(envelope.message, &envelope.type_meta, shape)
    }

    /// What it is.
    pub fn kind(&self) -> &str {
        self.tree.str_at(&["kind"]).unwrap_or_default()
    }

    /// The document in the one form it has in JSON, its type fields first.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIRST_BYTES);
        write_into(self.shape, &self.tree, &mut out);
        out.shrink_to_fit();
        out
    }

    fn read(message: &[u8], of: &TypeMeta, shape: &'static Shape) -> Result<Self, Error> {
        let mut map = Map::with_capacity(8);
        map.push("kind", of.kind.clone());
        map.push("apiVersion", of.api_version.clone());
        decode_message(message, shape, &mut map)?;
        let tree = map.into();
        Ok(Self { tree, shape })
    }
}

impl<'a> Documents<'a> {
    /// Opens the envelope of a list.
    pub fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        let envelope = envelope::open(bytes)?;
        let TypeMeta { api_version, kind } = envelope.type_meta;
        let item = kind.strip_suffix("List").unwrap_or_default();
        let of = TypeMeta::new(&api_version, item);
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
            shape: shape_of(&of)?,
            of,
            items,
        })
    }

    /// The items, each with the type that the list says they have.
    pub fn items(&self) -> impl Iterator<Item = Result<Document, Error>> {
        self.items
            .iter()
            .map(|item| Document::read(item, &self.of, self.shape))
    }
}

/// Room for most documents.
const FIRST_BYTES: usize = 4 << 10;

/// A JSON document in protobuf, in its envelope. `None` for one that would lose by it: its kind is not known here or has
/// no such form, or there is something in it that its kind does not know, of which the reader would like to hear.
pub fn seal(json: &[u8]) -> Option<Vec<u8>> {
    let tree = json::parse(json).ok()?;
    let of = TypeMeta::new(tree.str_at(&["apiVersion"])?, tree.str_at(&["kind"])?);
    let shape = shape_of(&of).ok()?;
    let decoded = strict::conform_tree(tree, shape, Validation::Strict).ok()?;
    Some(encode_object(shape, &decoded.tree))
}

/// Whether the objects of a resource are of a kind that has a form here. The pack has kinds and no resources, but every
/// resource of a built-in kind is named after its kind in one way.
pub fn is_known(group: &str, version: &str, resource: &str) -> bool {
    let pack = Pack::builtin();
    let mut kinds = pack.kinds().filter(|(gvk, _)| gvk[..2] == [group, version]);
    kinds.any(|(gvk, id)| is_plural(gvk[2], resource) && has_form(pack.shape(id)))
}

/// Whether this is what the resource of a kind is called.
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

fn shape_of(of: &TypeMeta) -> Result<&'static Shape, Error> {
    let (group, version) = of.api_version.split_once('/').unwrap_or(("", &of.api_version));
    let shape = Pack::builtin().shape_of(group, version, &of.kind);
    shape
        .filter(|shape| has_form(shape))
        .ok_or_else(|| Error::NoForm(of.kind.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"a","resourceVersion":"5"},"data":{"k":"v"}}"#;

    fn read(bytes: &[u8]) -> String {
        String::from_utf8(Document::open(bytes).unwrap().to_json()).unwrap()
    }

    #[test]
    fn a_document_comes_back_as_it_went() {
        let sealed = seal(MAP.as_bytes()).unwrap();
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
        let list = Documents::open(&bytes).unwrap();
        assert_eq!(list.metadata.str_at(&["resourceVersion"]), Some("9"));
        let items: Vec<_> = list.items().map(|item| item.unwrap().to_json()).collect();
        assert_eq!(items, [MAP.as_bytes(), MAP.as_bytes()]);
    }

    #[track_caller]
    fn check_kept(json: &str, expected: bool) {
        assert_eq!(seal(json.as_bytes()).is_some(), expected, "{json}");
    }

    #[test]
    fn what_would_lose_by_it_stays_json() {
        check_kept(
            r#"{"kind":"Scale","apiVersion":"autoscaling/v1","spec":{"replicas":2}}"#,
            true,
        );
        check_kept(r#"{"kind":"ConfigMap","apiVersion":"v1","dta":{}}"#, false);
        check_kept(
            r#"{"kind":"ConfigMap","apiVersion":"v1","data":{},"data":{}}"#,
            false,
        );
        check_kept(
            r#"{"kind":"Foo","apiVersion":"samplecontroller.k8s.io/v1alpha1"}"#,
            false,
        );
        check_kept(r#"{"kind":"ConfigMap"}"#, false);
        check_kept("no JSON", false);
    }

    #[test]
    fn a_kind_of_later_days_is_an_error() {
        let sealed = envelope::seal(&TypeMeta::new("apps/v7", "Deployment"), b"");
        let error = Document::open(&sealed).unwrap_err();
        assert_eq!(error.to_string(), "kind Deployment has no protobuf form");
    }

    #[track_caller]
    fn check_known(resource: &str, expected: bool) {
        let [group, version, resource] = resource.split('/').collect::<Vec<_>>()[..] else {
            panic!("{resource:?} is a group, a version and a resource");
        };
        assert_eq!(is_known(group, version, resource), expected, "{resource}");
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
            check_known(known, true);
        }
        for unknown in [
            "samplecontroller.k8s.io/v1alpha1/foos",
            "apps/v7/deployments",
            "/v1/pod",
            "/v1/podses",
            "/v1/y",
        ] {
            check_known(unknown, false);
        }
    }
}
