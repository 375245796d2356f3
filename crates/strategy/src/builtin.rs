//! [`BuiltinKind`]: implements [`crate::Kind`] for a [`Strategy`].

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

use setpoint_api::field::Errors;
use setpoint_api::object::Header;
use setpoint_api::table::Cell;
use setpoint_api::{Gvk, Gvr, Key, ResourceVersion, Stored};
use setpoint_schema::{CanonicalJson, Pack, Shape, Tree, fields};

use crate::columns::Column;
use crate::field::FieldRef;
use crate::header::HeaderReader;
use crate::kind::{
    Convert, Decode, Deletion, Describe, InvalidObject, KindInfo, Present, ResourceNames, ScalePaths,
    SelectableField, Storage, UpdateContext, WriteStrategy,
};
use crate::strategy::{
    Action, FieldLabel, Names, RequestFacts, Rules, Scope, Strategy, Subresource, SubresourceKind, WriteRules,
};
use crate::{meta, new_members, normal_form};

/// A built-in kind in its storage version.
#[derive(Debug)]
pub struct BuiltinKind<T> {
    info: KindInfo,
    reader: HeaderReader,
    /// Looked up on first use: it is needed several times in each request.
    shape: OnceLock<&'static Shape>,
    rules: PhantomData<fn() -> T>,
}

// === impl Builtin ===

impl<T: Strategy> BuiltinKind<T> {
    pub fn new() -> Self {
        let info = kind_info::<T>();
        Self {
            reader: HeaderReader::new(&info),
            info,
            shape: OnceLock::new(),
            rules: PhantomData,
        }
    }
}

/// The constants of a [`Strategy`] as values, for functions that are compiled once and not for each kind.
struct Constants {
    kind: (&'static str, &'static str, &'static str),
    names: Names,
    scope: Scope,
    columns: &'static [Column],
    fields: &'static [FieldLabel],
    subresources: &'static [Subresource],
    rules: Rules,
}

/// The [`KindInfo`] of a strategy.
pub(crate) fn kind_info<T: Strategy>() -> KindInfo {
    let constants = Constants {
        kind: T::KIND,
        names: T::NAMES,
        scope: T::SCOPE,
        columns: T::COLUMNS,
        fields: T::FIELDS,
        subresources: T::SUBRESOURCES,
        rules: T::RULES,
    };
    constants.kind_info()
}

// === impl Constants ===

impl Constants {
    fn kind_info(self) -> KindInfo {
        let (group, version, kind) = self.kind;
        let gvr = Gvr::new(group, version, self.names.plural);
        let deprecation_warning = self.rules.resource.deprecation_warning;
        KindInfo {
            gvk: Gvk::new(group, version, kind),
            storage: gvr.clone(),
            gvr,
            list_kind: format!("{kind}List"),
            names: self.names.into(),
            scope: self.scope,
            columns: self.columns.iter().map(|column| column.header.into()).collect(),
            fields: self.fields.iter().map(SelectableField::from).collect(),
            subresources: self.subresources.to_vec(),
            scale: self.has_scale().then(ScalePaths::of_workloads),
            rules: self.rules,
            is_custom: false,
            deprecation_warning: (!deprecation_warning.is_empty()).then(|| deprecation_warning.to_owned()),
        }
    }

    fn has_scale(&self) -> bool {
        self.subresources
            .iter()
            .any(|subresource| matches!(subresource.kind, SubresourceKind::Scale))
    }
}

/// The shape of a built-in kind.
pub fn shape_of((group, version, kind): (&str, &str, &str)) -> &'static Shape {
    let shape = Pack::builtin().shape_of(group, version, kind);
    shape.expect("the pack has every built-in kind")
}

/// Decodes a stored object's JSON into normal form.
pub(crate) fn decode_json(shape: &Shape, json: &[u8]) -> Result<Tree, InvalidObject> {
    let tree = setpoint_codec::json::parse(json);
    let mut tree = tree.map_err(|error| InvalidObject::Malformed(error.to_string()))?;
    normal_form::normalise(shape, &mut tree)?;
    Ok(tree)
}

/// Validates the metadata of an object of this kind.
pub(crate) fn validate_metadata<T: Strategy>(object: &FieldRef<'_>) {
    validate_metadata_by(&T::RULES.write, T::SCOPE, object);
}

fn validate_metadata_by(rules: &WriteRules, scope: Scope, object: &FieldRef<'_>) {
    let metadata = object.at(fields::METADATA);
    meta::validate(&metadata, scope, rules.name);
    if !rules.unqualified_finalizers {
        meta::validate_finalizers_qualified(&metadata);
    }
}

/// Compresses the JSON of a kind that does ([`Strategy::compress`]).
fn compressed(compress: fn(&[u8]) -> Option<Vec<u8>>, mut written: CanonicalJson) -> CanonicalJson {
    if let Some(packed) = compress(&written.bytes) {
        written.uncompressed_bytes = Some(written.bytes.len());
        written.bytes = packed;
    }
    written
}

/// The cells of an object in these columns.
fn cells(columns: &[Column], shape: &Shape, object: &Stored, now: Timestamp) -> Vec<Cell> {
    let Ok(tree) = setpoint_codec::json::parse(object.json()) else {
        return columns.iter().map(|_| Cell::from("<unreadable>")).collect();
    };
    let row = FieldRef::read_only(&tree, shape);
    columns.iter().map(|column| (column.cell)(&row, now)).collect()
}

/// [`Strategy::warnings`] of a kind.
type Warnings = fn(&FieldRef<'_>, Option<&FieldRef<'_>>) -> Vec<String>;

/// Warnings contain field paths, but most objects have none: a first pass without paths finds that out.
fn warnings(of_kind: Warnings, shape: &Shape, object: &Tree, old: Option<&Tree>) -> Vec<String> {
    let old = old.map(|old| FieldRef::read_only(old, shape));
    if of_kind(&FieldRef::read_only(object, shape), old.as_ref()).is_empty() {
        return Vec::new();
    }
    of_kind(&FieldRef::new(object, shape, &Errors::default()), old.as_ref())
}

impl<T: Strategy> Default for BuiltinKind<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Strategy> Describe for BuiltinKind<T> {
    fn info(&self) -> &KindInfo {
        &self.info
    }

    fn shape(&self) -> &Shape {
        self.shape.get_or_init(|| shape_of(T::KIND))
    }

    fn stored_shape(&self) -> &Shape {
        self.shape()
    }
}

impl<T: Strategy> Decode for BuiltinKind<T> {
    fn prepare_input(&self, tree: &mut Tree) -> Result<(), InvalidObject> {
        normal_form::normalise(self.shape(), tree)?;
        T::default_fields(tree);
        Ok(())
    }
}

impl<T: Strategy> Storage for BuiltinKind<T> {
    fn write(&self, object: &Tree) -> Result<CanonicalJson, InvalidObject> {
        let written = setpoint_schema::write(self.shape(), object, T::RULES.upstream.empty);
        Ok(compressed(T::compress, written))
    }

    fn write_new(&self, object: &Tree, managed_fields: &[u8]) -> Result<CanonicalJson, InvalidObject> {
        let empty = T::RULES.upstream.empty;
        let written = setpoint_schema::write_with_managed_fields(self.shape(), object, empty, managed_fields);
        Ok(compressed(T::compress, written))
    }

    fn decode_stored(&self, object: &Stored) -> Result<Tree, InvalidObject> {
        decode_json(self.shape(), &T::decompress(object.json())?)
    }

    fn header_of(&self, key: &Key, object: &Tree) -> Option<Header> {
        Some(self.reader.header_of(key.clone(), object, self.shape()))
    }

    fn stored(&self, key: Key, version: ResourceVersion, json: Bytes) -> Result<Stored, InvalidObject> {
        self.reader.stored(key, version, json)
    }

    fn convert_to_etcd(&self, object: &mut Tree) {
        T::convert_to_etcd(object);
    }

    fn convert_from_etcd(&self, object: &mut Tree) {
        T::convert_from_etcd(object);
    }

    fn expires_after(&self, facts: &RequestFacts) -> Option<Duration> {
        T::expires_after(facts)
    }
}

impl<T: Strategy> Convert for BuiltinKind<T> {
    fn converts(&self) -> bool {
        T::COMPRESSES
    }

    fn to_request_version(&self, object: &Arc<Stored>) -> Result<Arc<Stored>, InvalidObject> {
        if !T::COMPRESSES {
            return Ok(object.clone());
        }
        let json = T::decompress(object.json())?;
        let stored = self.stored(object.key().clone(), object.resource_version(), json);
        stored.map(Arc::new)
    }
}

impl<T: Strategy> WriteStrategy for BuiltinKind<T> {
    fn default_for_request(&self, tree: &mut Tree, facts: &RequestFacts) {
        T::default_for_request(tree, facts);
    }

    fn prepare_create(&self, object: &mut Tree, facts: &RequestFacts) {
        if T::RULES.write.tracks_generation {
            object.set(&[fields::METADATA, fields::GENERATION], 1);
        }
        T::prepare_create(object, facts);
    }

    fn finish_create(&self, object: &mut Tree) {
        T::finish_create(object);
    }

    fn apply_action(&self, object: &mut Tree, action: Action, body: &Tree, facts: &RequestFacts) {
        T::apply_action(object, action, body, facts);
    }

    fn apply_action_encoded(
        &self,
        object: &Stored,
        action: Action,
        body: &Tree,
        facts: &RequestFacts,
    ) -> Option<(CanonicalJson, Header)> {
        let members = T::new_members_of_action(action, object, body, facts)?;
        let written = new_members::with_members(self.shape(), object, &members)?;
        let header = self.reader.header_with_members(object.header(), &members);
        Some((written, header))
    }

    fn prepare_update(&self, object: &mut Tree, update: &UpdateContext<'_>) {
        let (old, facts) = (update.old, update.facts);
        match update.subresource {
            None => T::prepare_update(object, old, facts),
            Some(SubresourceKind::Status) => T::prepare_status(object, old, facts),
            Some(SubresourceKind::Partial(rules)) => (rules.prepare)(object, old, facts),
            // The action has already changed the object; that does not increment the generation.
            Some(SubresourceKind::Action(_)) => return,
            Some(_) => {}
        }
        if T::RULES.write.tracks_generation && T::changes_spec(object, old) {
            let generation = meta::int(old, fields::GENERATION);
            object.set(&[fields::METADATA, fields::GENERATION], generation + 1);
        }
    }

    fn validate(&self, object: &Tree, facts: &RequestFacts, errors: &Errors) {
        let object = FieldRef::new(object, self.shape(), errors);
        if T::RULES.write.validate_metadata_last {
            T::validate(&object, facts);
            if errors.is_empty() {
                validate_metadata::<T>(&object);
            }
            return;
        }
        validate_metadata::<T>(&object);
        T::validate(&object, facts);
    }

    fn validate_update(&self, object: &Tree, update: &UpdateContext<'_>, errors: &Errors) {
        let object = FieldRef::new(object, self.shape(), errors);
        let old = FieldRef::read_only(update.old, self.shape());
        let facts = update.facts;
        validate_metadata::<T>(&object);
        meta::validate_update(&object.at(fields::METADATA), &old.at(fields::METADATA));
        match update.subresource {
            Some(SubresourceKind::Status) => T::validate_status(&object, &old, facts),
            Some(SubresourceKind::Partial(rules)) => (rules.validate)(&object, &old, facts),
            Some(_) => T::validate_for_update(&object, &old, facts),
            None => {
                T::validate_for_update(&object, &old, facts);
                T::validate_update(&object, &old, facts);
            }
        }
    }

    fn warnings(&self, object: &Tree, old: Option<&Tree>) -> Vec<String> {
        warnings(T::warnings, self.shape(), object, old)
    }
}

impl<T: Strategy> Deletion for BuiltinKind<T> {
    fn grace_period(&self, object: &Tree, requested: Option<i64>) -> Option<i64> {
        T::grace_period(object, requested)
    }

    fn begin_deletion(&self, object: &mut Tree) {
        T::begin_deletion(object);
    }

    fn is_held(&self, object: &Tree) -> bool {
        T::is_held(object)
    }
}

impl<T: Strategy> Present for BuiltinKind<T> {
    fn cells(&self, object: &Stored, now: Timestamp) -> Vec<Cell> {
        cells(T::COLUMNS, self.shape(), object, now)
    }
}

// === impl conversions ===

impl From<Names> for ResourceNames {
    fn from(names: Names) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            plural: names.plural.to_owned(),
            singular: names.singular.to_owned(),
            short: owned(names.short),
            categories: owned(names.categories),
        }
    }
}

impl From<&FieldLabel> for SelectableField {
    fn from(field: &FieldLabel) -> Self {
        let owned = |path: &&[&str]| path.iter().map(|step| (*step).to_owned()).collect();
        Self {
            label: field.label.to_owned(),
            paths: field.paths.iter().map(owned).collect(),
            absent: field.absent,
            stored_as: field.stored_as.to_owned(),
        }
    }
}

impl ScalePaths {
    /// The paths that all built-in workloads use.
    fn of_workloads() -> Self {
        let path = |steps: [&str; 2]| steps.map(str::to_owned).to_vec();
        Self {
            replicas: path([fields::SPEC, fields::REPLICAS]),
            status_replicas: path([fields::STATUS, fields::REPLICAS]),
            selector: Some(path([fields::SPEC, fields::SELECTOR])),
        }
    }
}
