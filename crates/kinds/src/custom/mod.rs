//! Custom kinds: what a CustomResourceDefinition makes of a resource.
//!
//! [`Custom`] is one version of such a kind. It is a [`Kind`] like any other; where a built-in kind has a file of rules,
//! it has a compiled schema. A document in flight is of the version of the request. What stands in the store carries
//! the name of the version that was stored when it was written; on its way in and out it gets another name, and loses
//! what the other version does not know.
//!
//! Start reading at [`kinds_of`], then `rules`.

mod columns;
mod define;
mod embedded;
mod json_path;
mod lazy;
mod published;
mod rules;
mod versions;

pub use define::kinds_of;
pub use json_path::JsonPath;
pub use lazy::Source;
pub(crate) use rules::field_error;
pub use versions::Rank;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use setpoint_api::call::Encoding;
use setpoint_api::field::Errors;
use setpoint_api::options::FieldValidation;
use setpoint_api::table::Cell;
use setpoint_api::{Key, ResourceVersion, Stored};
use setpoint_codec::strict::{self, DecodeError, Decoded};
use setpoint_schema::custom::{Judge, Schema};
use setpoint_schema::{Empty, Problem as Unknown, Problems, Shape, Tree, Written, prune};

use crate::header::Reader;
use crate::kind::{About, Deletion, Kind, Problem};
use crate::strategy::{Facts, Part};
use columns::Column;
use versions::Versions;

/// One version of a custom kind.
#[derive(Debug)]
pub struct Custom {
    about: About,
    /// Reads headers of documents in this version.
    reader: Reader,
    /// What patches and apply walk, with the names of the kind; made when it is first needed.
    shape: OnceLock<Shape>,
    /// `kind`, `apiVersion` and metadata, which every object has.
    head: Shape,
    versions: Arc<Versions>,
    /// The place of this very version.
    own: usize,
    /// Who judges the rules that are expressions; without anyone they are kept and not judged.
    judge: Option<Arc<dyn Judge>>,
    columns: Vec<Column>,
}

impl Custom {
    fn schema(&self) -> &Schema {
        &self.versions.at(self.own).compiled().schema
    }

    /// Drops what neither the schema nor the metadata knows, and names it.
    fn prune(&self, tree: &mut Tree) -> Problems {
        let mut problems = Problems {
            list: rules::drop_duplicates(tree),
            mismatch: None,
        };
        if let Some(metadata) = tree.find_mut("metadata") {
            let shape = self.head.at(&["metadata"]).expect("every object has metadata");
            let found = prune(shape, metadata);
            let named = found.list.into_iter().map(|problem| match problem {
                Unknown::Unknown(path) => Unknown::Unknown(format!("metadata.{path}")),
                Unknown::Duplicate(path) => Unknown::Duplicate(format!("metadata.{path}")),
            });
            problems.list.extend(named);
            problems.mismatch = found.mismatch;
        }
        let dropped = self.schema().prune(tree).into_iter();
        problems
            .list
            .extend(dropped.map(|path| Unknown::Unknown(path.into())));
        embedded::coerce(self.schema(), tree, &mut problems);
        problems
    }

    /// Brings the metadata into its normal form.
    fn settle(&self, tree: &mut Tree) -> Result<(), Problem> {
        let mut head = head_of(tree);
        crate::normal::normalise(&self.head, &mut head)?;
        tree.set(&["metadata"], head.take(&["metadata"]).unwrap_or_default());
        Ok(())
    }

    /// Has the rules that are expressions judged, unless there is too much wrong already.
    fn judge(&self, object: &Tree, old: Option<&Tree>, errors: &Errors) {
        if !self.schema().has_expressions() {
            return;
        }
        if errors.has_any(rules::BLOCKING) {
            rules::report_unchecked(errors);
        } else if let Some(judge) = &self.judge {
            rules::report(&self.schema().judge(&**judge, object, old), errors);
        }
    }

    fn has_status(&self) -> bool {
        let mut subresources = self.about.subresources.iter();
        subresources.any(|subresource| subresource.part == Part::Status)
    }
}

/// The part of a document that every object has.
fn head_of(tree: &Tree) -> Tree {
    let mut head = Tree::default();
    for field in ["kind", "apiVersion", "metadata"] {
        if let Some(value) = tree.get(field) {
            head.set(&[field], value.clone());
        }
    }
    head
}

/// Writes all that is no part of the head into a document that ends with it.
fn write_rest(object: &Tree, json: &mut Vec<u8>) {
    json.pop();
    let parts = object.as_map().into_iter().flat_map(|map| map.iter());
    for (name, value) in parts.filter(|(name, _)| !matches!(*name, "kind" | "apiVersion" | "metadata")) {
        json.push(b',');
        setpoint_schema::write::write_string(name, json);
        json.push(b':');
        setpoint_schema::write::write_tree(value, json);
    }
    json.push(b'}');
}

impl Kind for Custom {
    fn about(&self) -> &About {
        &self.about
    }

    fn shape(&self) -> &Shape {
        self.shape
            .get_or_init(|| define::shape(&self.about, self.schema()))
    }

    fn stored_shape(&self) -> &Shape {
        self.shape()
    }

    fn decode(
        &self,
        bytes: &[u8],
        encoding: Encoding,
        validation: FieldValidation,
    ) -> Result<Decoded, DecodeError> {
        strict::decode_by(bytes, encoding, self.shape(), validation, |tree| self.prune(tree))
    }

    fn conform(&self, tree: Tree, validation: FieldValidation) -> Result<Decoded, DecodeError> {
        strict::conform_tree_by(tree, self.shape(), validation, |tree| self.prune(tree))
    }

    /// The head in its canonical form, and behind it everything else as it is, of the version that is stored.
    fn write(&self, object: &Tree) -> Written {
        let object = self.versions.at_rest(object);
        let mut written = setpoint_schema::write(&self.head, &head_of(&object), Empty::Kept);
        write_rest(&object, &mut written.bytes);
        written
    }

    fn take_in(&self, tree: &mut Tree) -> Result<(), Problem> {
        self.schema().fill(tree);
        self.schema().drop_nulls(tree);
        self.settle(tree)
    }

    fn take_in_applied(&self, tree: &mut Tree) -> Result<(), Problem> {
        self.schema().prune(tree);
        self.schema().fill(tree);
        self.settle(tree)
    }

    fn revise(&self, object: &Stored) -> Result<Tree, Problem> {
        let tree = setpoint_codec::json::parse(object.json());
        let mut tree = tree.map_err(|error| Problem(error.to_string()))?;
        self.versions.wake(&mut tree);
        self.versions
            .convert(&mut tree, &self.about.gvk.api_version(), self.schema());
        self.settle(&mut tree)?;
        Ok(tree)
    }

    fn prepare_create(&self, object: &mut Tree, _facts: &Facts) {
        object.set(&["metadata", "generation"], 1);
        if self.has_status() {
            crate::parts::drop(object, "status");
        }
    }

    fn prepare_update(&self, object: &mut Tree, old: &Tree, part: Option<(Part, &str)>, _facts: &Facts) {
        rules::prepare_update(object, old, part, self.has_status());
    }

    fn validate(&self, object: &Tree, errors: &Errors) {
        rules::validate_metadata(object, &self.head, self.about.scope, errors);
        rules::report(&self.schema().validate(object, None), errors);
        rules::validate_scale(object, self.about.scale.as_ref(), errors);
        embedded::validate(self.schema(), object, errors);
        rules::report(&self.schema().duplicates(object), errors);
        self.judge(object, None, errors);
    }

    fn validate_update(&self, object: &Tree, old: &Tree, part: Option<(Part, &str)>, errors: &Errors) {
        rules::validate_metadata(object, &self.head, self.about.scope, errors);
        rules::validate_metadata_update(object, old, &self.head, errors);
        if let (Some((Part::Status, _)), Some(schema)) = (part, self.schema().property("status")) {
            let status = object.get("status").unwrap_or(&Tree::Null);
            rules::report_status(schema.validate(status, old.get("status")), errors);
            rules::validate_scale_status(object, self.about.scale.as_ref(), errors);
        } else {
            rules::report(&self.schema().validate(object, Some(old)), errors);
            rules::validate_scale(object, self.about.scale.as_ref(), errors);
            embedded::validate(self.schema(), object, errors);
        }
        // Who has duplicates may keep them.
        if self.schema().duplicates(old).is_empty() {
            rules::report(&self.schema().duplicates(object), errors);
        }
        self.judge(object, Some(old), errors);
    }

    fn warnings(&self, object: &Tree, old: Option<&Tree>) -> Vec<String> {
        rules::warn_of_finalizers(object, old)
    }

    fn deletion(&self) -> &dyn Deletion {
        self
    }

    fn expires_after(&self, _facts: &Facts) -> Option<Duration> {
        None
    }

    fn stored(&self, key: Key, version: ResourceVersion, json: Bytes) -> Result<Stored, Problem> {
        self.reader.stored(key, version, json)
    }

    fn converts(&self) -> bool {
        true
    }

    /// What was written in this very version, under a schema without defaults, is shown as it is.
    fn present(&self, object: &Arc<Stored>) -> Result<Arc<Stored>, Problem> {
        if !self.versions.at(self.own).compiled().has_defaults && self.reader.is_head_of(object.json()) {
            return Ok(object.clone());
        }
        let mut tree = self.revise(object)?;
        tree.set(
            &["metadata", "resourceVersion"],
            object.resource_version().to_string(),
        );
        let mut json = Vec::with_capacity(object.json().len());
        setpoint_schema::write_into(&self.head, &head_of(&tree), &mut json);
        write_rest(&tree, &mut json);
        let version = object.resource_version();
        let stored = self
            .reader
            .stored(object.key().clone(), version, Bytes::from(json));
        stored.map(Arc::new)
    }

    fn published(&self) -> Option<(String, Value)> {
        let schema = self.versions.at(self.own).json();
        Some(published::schema(&self.about, &schema))
    }

    fn cells(&self, object: &Stored, now: Timestamp) -> Vec<Cell> {
        let tree = setpoint_codec::json::parse(object.json()).unwrap_or_default();
        self.columns
            .iter()
            .map(|column| column.cell(&tree, now))
            .collect()
    }
}

impl Deletion for Custom {
    fn grace(&self, _object: &Tree, _asked: Option<i64>) -> Option<i64> {
        None
    }

    fn begin(&self, _object: &mut Tree) {}

    fn is_held(&self, _object: &Tree) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
