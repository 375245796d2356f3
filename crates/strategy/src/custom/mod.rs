//! Custom kinds: [`CustomKind`] implements [`crate::Kind`] for one version of a CRD.
//!
//! Where a built-in kind has a [`crate::Strategy`], a custom kind has a compiled schema. A request's object is in the
//! version of the request. A stored object has the `apiVersion` that was the storage version when it was written;
//! reads and writes set the other version's `apiVersion` and drop the fields that the other version does not have. With
//! a conversion webhook the registry has called it before, by [`crate::WebhookConversion`].
//!
//! Start reading at [`kinds_of`], then `rules`.

pub mod approval;
mod columns;
pub mod compression;
mod converted_metadata;
pub mod crd;
pub mod embedded;
mod from_crd;
mod json_path;
mod lazy_schema;
mod openapi;
mod rules;
pub mod validation_rules;
mod versions;
mod webhook;

pub use converted_metadata::{check_identity, restore_metadata};
pub use from_crd::{common_shape, kinds_of};
pub use json_path::JsonPath;
pub use lazy_schema::StoredCrd;
pub use openapi::selectable_fields;
pub use rules::field_error;
pub use versions::KubeAwareVersion;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use setpoint_api::call::Encoding;
use setpoint_api::field::Errors;
use setpoint_api::options::FieldValidation;
use setpoint_api::table::Cell;
use setpoint_api::{Key, ResourceVersion, Stored};
use setpoint_codec::strict::{self, DecodeError, DecodedObject};
use setpoint_schema::custom::{DefaultsTooLarge, Schema};
use setpoint_schema::openapi::OpenApiVersion;
use setpoint_schema::{CanonicalJson, PruneErrors, Shape, StrictError as Unknown, Tree, fields, prune};

use crate::header::HeaderReader;
use crate::kind::{
    Convert, Decode, Deletion, Describe, InvalidObject, KindInfo, Present, Storage, UpdateContext,
    WebhookConversion, WriteStrategy,
};
use crate::strategy::{RequestFacts, SubresourceKind};
use columns::Column;
use validation_rules::{RUNTIME_COST_BUDGET, RuleTarget};
use versions::Versions;

/// One version of a custom kind.
#[derive(Debug)]
pub struct CustomKind {
    info: KindInfo,
    /// Reads headers of objects in this version.
    reader: HeaderReader,
    /// The shape that patches and apply use, with the kind's names; built when it is first needed.
    shape: OnceLock<Shape>,
    /// The shape of `kind`, `apiVersion` and metadata, which every object has.
    head: Shape,
    versions: Arc<Versions>,
    /// The index of this version in `versions`.
    version_index: usize,
    columns: Vec<Column>,
}

impl CustomKind {
    fn schema(&self) -> &Schema {
        &self.versions.schema_at(self.version_index).compiled().schema
    }

    /// Drops fields that neither the schema nor the metadata has, and returns their paths.
    fn prune(&self, tree: &mut Tree) -> PruneErrors {
        let mut problems = self.prune_metadata(tree);
        let dropped = self.schema().prune(tree).into_iter();
        problems
            .strict
            .extend(dropped.map(|path| Unknown::Unknown(path.into())));
        self.schema().prune_non_nullable_nulls(tree);
        embedded::coerce(self.schema(), tree, &mut problems);
        problems
    }

    /// Drops unknown fields of the metadata and what the whole object has twice, and returns their paths.
    fn prune_metadata(&self, tree: &mut Tree) -> PruneErrors {
        let mut problems = PruneErrors {
            strict: rules::drop_duplicates(tree),
            type_error: None,
        };
        if let Some(metadata) = tree.find_mut(fields::METADATA) {
            let shape = self
                .head
                .at(&[fields::METADATA])
                .expect("every object has metadata");
            let found = prune(shape, metadata);
            let named = found.strict.into_iter().map(|problem| match problem {
                Unknown::Unknown(path) => Unknown::Unknown(format!("metadata.{path}")),
                Unknown::Duplicate(path) => Unknown::Duplicate(format!("metadata.{path}")),
            });
            let mut named: Vec<Unknown> = named.collect();
            named.sort_by_key(ToString::to_string);
            problems.strict.extend(named);
            // Upstream decodes metadata with sorted keys, and reports the first error.
            let first_error = |other| prune(shape, &mut metadata.sorted()).type_error.unwrap_or(other);
            problems.type_error = found.type_error.map(first_error);
        }
        problems
    }

    /// Brings the metadata into normal form.
    fn normalise_metadata(&self, tree: &mut Tree) -> Result<(), InvalidObject> {
        let mut head = head_of(tree);
        crate::normal_form::normalise(&self.head, &mut head)?;
        tree.set(
            &[fields::METADATA],
            head.take(&[fields::METADATA]).unwrap_or_default(),
        );
        Ok(())
    }

    /// Decodes a stored object by the schema of the version that it is stored in.
    fn decode_in_own_version(&self, object: &Stored) -> Result<Tree, InvalidObject> {
        let mut tree = parse(object)?;
        self.versions.apply_schema(&mut tree).map_err(too_large)?;
        self.normalise_metadata(&mut tree)?;
        Ok(tree)
    }

    /// Encodes an object of this version, with the key and the resource version of the stored object. The object of a dry
    /// run may have none.
    fn encode_in_version(&self, mut tree: Tree, stored: &Stored) -> Result<Arc<Stored>, InvalidObject> {
        let version = stored.resource_version();
        if version != ResourceVersion::ZERO {
            tree.set(&[fields::METADATA, fields::RESOURCE_VERSION], version.to_string());
        }
        let mut json = Vec::with_capacity(stored.json().len());
        setpoint_schema::write_sorted_into(&self.head, &tree, &mut json);
        let object = self
            .reader
            .stored(stored.key().clone(), version, Bytes::from(json));
        object.map(Arc::new)
    }

    /// Evaluates the CEL rules, unless blocking errors have already been reported.
    fn evaluate_rules(&self, object: &Tree, old: Option<&Tree>, errors: &Errors) {
        let compiled = self.versions.schema_at(self.version_index).compiled();
        let Some(validator) = compiled.rule_validator() else {
            return;
        };
        if errors.has_any(rules::BLOCKING_CAUSES) {
            rules::report_unevaluated_rules(errors);
            return;
        }
        let target = RuleTarget {
            value: object,
            old,
            is_ratcheted: true,
        };
        validator.validate(&compiled.schema, target, RUNTIME_COST_BUDGET, errors);
    }
}

fn parse(object: &Stored) -> Result<Tree, InvalidObject> {
    let tree = setpoint_codec::json::parse(object.json());
    tree.map_err(|error| InvalidObject::Malformed(error.to_string()))
}

fn too_large(defaults: DefaultsTooLarge) -> InvalidObject {
    InvalidObject::Malformed(defaults.to_string())
}

/// `kind`, `apiVersion` and metadata of an object.
fn head_of(tree: &Tree) -> Tree {
    let mut head = Tree::default();
    for field in [fields::KIND, fields::API_VERSION, fields::METADATA] {
        if let Some(value) = tree.get(field) {
            head.set(&[field], value.clone());
        }
    }
    head
}

impl Describe for CustomKind {
    fn info(&self) -> &KindInfo {
        &self.info
    }

    fn shape(&self) -> &Shape {
        self.shape
            .get_or_init(|| from_crd::shape(&self.info, self.schema()))
    }

    fn stored_shape(&self) -> &Shape {
        self.shape()
    }
}

impl Decode for CustomKind {
    fn decode(
        &self,
        bytes: &[u8],
        encoding: Encoding,
        validation: FieldValidation,
    ) -> Result<DecodedObject, DecodeError> {
        strict::decode_with(bytes, encoding, self.shape(), validation, |tree| self.prune(tree))
    }

    fn conform(&self, tree: Tree, validation: FieldValidation) -> Result<DecodedObject, DecodeError> {
        strict::conform_tree_with(tree, self.shape(), validation, |tree| self.prune(tree))
    }

    fn conform_admitted(&self, tree: Tree) -> Result<DecodedObject, DecodeError> {
        strict::conform_tree_with(tree, self.shape(), FieldValidation::Ignore, |tree| {
            let mut problems = self.prune_metadata(tree);
            embedded::coerce(self.schema(), tree, &mut problems);
            problems
        })
    }

    fn drop_unknown_fields(&self, tree: &mut Tree) {
        self.schema().prune(tree);
    }

    fn prepare_input(&self, tree: &mut Tree) -> Result<(), InvalidObject> {
        self.schema().apply_defaults(tree).map_err(too_large)?;
        self.schema().prune_non_nullable_nulls(tree);
        self.normalise_metadata(tree)
    }

    fn prepare_applied(&self, tree: &mut Tree) -> Result<(), InvalidObject> {
        self.schema().prune(tree);
        self.schema().apply_defaults(tree).map_err(too_large)?;
        self.normalise_metadata(tree)
    }
}

impl Storage for CustomKind {
    /// In the storage version, with all keys sorted.
    fn write(&self, object: &Tree) -> Result<CanonicalJson, InvalidObject> {
        let object = self.versions.to_storage_version(object)?;
        Ok(setpoint_schema::write_sorted(&self.head, &object))
    }

    /// With a webhook the object has been converted, or completed by [`Convert::to_request_version`].
    fn decode_stored(&self, object: &Stored) -> Result<Tree, InvalidObject> {
        let mut tree = parse(object)?;
        if self.versions.webhook().is_none() {
            self.versions.apply_schema(&mut tree).map_err(too_large)?;
        }
        self.versions
            .convert(&mut tree, &self.info.gvk.api_version(), self.schema())?;
        self.normalise_metadata(&mut tree)?;
        Ok(tree)
    }

    fn stored(&self, key: Key, version: ResourceVersion, json: Bytes) -> Result<Stored, InvalidObject> {
        self.reader.stored(key, version, json)
    }
}

impl Convert for CustomKind {
    fn write_in_version(&self, object: &Tree) -> Result<Vec<u8>, InvalidObject> {
        let mut json = Vec::new();
        match object.str_at(&[fields::API_VERSION]) == Some(&self.info.gvk.api_version()) {
            true => setpoint_schema::write_sorted_into(&self.head, object, &mut json),
            false => {
                let mut object = object.clone();
                self.adopt_prepared(&mut object)?;
                setpoint_schema::write_sorted_into(&self.head, &object, &mut json);
            }
        }
        Ok(json)
    }

    fn adopt_prepared(&self, object: &mut Tree) -> Result<(), InvalidObject> {
        let version = self.info.gvk.api_version();
        self.versions.convert(object, &version, self.schema())
    }

    fn converts(&self) -> bool {
        true
    }

    /// An object that was written in this version, under a schema without defaults, is returned as it is.
    fn to_request_version(&self, object: &Arc<Stored>) -> Result<Arc<Stored>, InvalidObject> {
        if !self
            .versions
            .schema_at(self.version_index)
            .compiled()
            .has_defaults
            && self.reader.has_own_type_meta(object.json())
        {
            return Ok(object.clone());
        }
        let tree = match self.versions.webhook() {
            None => self.decode_stored(object)?,
            Some(_) => {
                let mut tree = self.decode_in_own_version(object)?;
                let version = self.info.gvk.api_version();
                self.versions.convert(&mut tree, &version, self.schema())?;
                tree
            }
        };
        self.encode_in_version(tree, object)
    }

    fn webhook_conversion(&self) -> Option<&dyn WebhookConversion> {
        self.versions.webhook().map(|_| self as &dyn WebhookConversion)
    }
}

impl WriteStrategy for CustomKind {
    fn prepare_create(&self, object: &mut Tree, _facts: &RequestFacts) {
        object.set(&[fields::METADATA, fields::GENERATION], 1);
        if self.info.has_status() {
            crate::top_level::drop(object, fields::STATUS);
        }
    }

    fn prepare_update(&self, object: &mut Tree, update: &UpdateContext<'_>) {
        rules::prepare_update(object, update.old, update.subresource, self.info.has_status());
    }

    fn validate(&self, object: &Tree, _facts: &RequestFacts, errors: &Errors) {
        rules::validate_metadata(object, &self.head, self.info.scope, errors);
        rules::report(&self.schema().validate(object, None), errors);
        rules::validate_scale(object, self.info.scale.as_ref(), errors);
        embedded::validate(self.schema(), object, errors);
        rules::report(&self.schema().duplicates(object), errors);
        self.evaluate_rules(object, None, errors);
    }

    fn validate_update(&self, object: &Tree, update: &UpdateContext<'_>, errors: &Errors) {
        let old = update.old;
        rules::validate_metadata(object, &self.head, self.info.scope, errors);
        rules::validate_metadata_update(object, old, &self.head, errors);
        if let (Some(SubresourceKind::Status), Some(schema)) =
            (update.subresource, self.schema().property(fields::STATUS))
        {
            if let Some(status) = object.get(fields::STATUS) {
                rules::report_status(schema.validate(status, old.get(fields::STATUS)), errors);
            }
            rules::validate_scale_status(object, self.info.scale.as_ref(), errors);
        } else {
            rules::report(&self.schema().validate(object, Some(old)), errors);
            rules::validate_scale(object, self.info.scale.as_ref(), errors);
            embedded::validate(self.schema(), object, errors);
        }
        // An update may keep duplicates that the old object already has.
        if self.schema().duplicates(old).is_empty() {
            rules::report(&self.schema().duplicates(object), errors);
        }
        self.evaluate_rules(object, Some(old), errors);
    }

    fn warnings(&self, object: &Tree, old: Option<&Tree>) -> Vec<String> {
        rules::finalizer_warnings(object, old)
    }
}

impl Deletion for CustomKind {}

impl Present for CustomKind {
    fn cells(&self, object: &Stored, now: Timestamp) -> Vec<Cell> {
        let tree = setpoint_codec::json::parse(object.json()).unwrap_or_default();
        self.columns
            .iter()
            .map(|column| column.cell(&tree, now))
            .collect()
    }

    fn openapi_schema(&self, version: OpenApiVersion) -> Option<(String, Value)> {
        let schema = self.versions.schema_at(self.version_index).json();
        Some(openapi::schema(&self.info, &schema, version))
    }
}

#[cfg(test)]
mod tests;
