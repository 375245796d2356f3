//! The schema of one version of a CRD, compiled when it is first used.
//!
//! Most CRDs in a cluster are idle. Until a request uses one, the only copy of its schemas is the compressed bytes of
//! the CRD, which the store holds anyway.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use compact_str::CompactString;
use parking_lot::Mutex;

use setpoint_schema::custom::Schema;

use super::compression::schema as stored_schema;
use super::validation_rules::RuleValidator;

/// The stored bytes of a CRD, shared by its kinds. They are replaced when the store's are, so that old bytes are
/// freed.
#[derive(Debug, Default)]
pub struct StoredCrd(Mutex<Bytes>);

/// A schema and the CRD it is compiled from.
#[derive(Debug)]
pub(super) struct LazySchema {
    crd: Arc<StoredCrd>,
    version: CompactString,
    compiled: OnceLock<CompiledSchema>,
}

/// A compiled schema.
#[derive(Debug)]
pub(super) struct CompiledSchema {
    pub(super) schema: Schema,
    pub(super) has_defaults: bool,
    /// Compiled by the first write, since reads do not need it.
    rule_validator: OnceLock<Option<RuleValidator>>,
}

impl StoredCrd {
    pub fn new(stored: &Bytes) -> Self {
        Self(Mutex::new(stored.clone()))
    }

    /// Replaces the bytes by those of an update that leaves the schemas unchanged.
    pub fn replace(&self, stored: &Bytes) {
        *self.0.lock() = stored.clone();
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.0.lock().clone()
    }
}

impl CompiledSchema {
    /// The validation rules of the schema, if it has any.
    pub(super) fn rule_validator(&self) -> Option<&RuleValidator> {
        let compile = || RuleValidator::compile(&self.schema, true);
        self.rule_validator.get_or_init(compile).as_ref()
    }
}

impl LazySchema {
    pub(super) fn new(definition: &Arc<StoredCrd>, version: &str) -> Self {
        Self {
            crd: definition.clone(),
            version: version.into(),
            compiled: OnceLock::new(),
        }
    }

    pub(super) fn compiled(&self) -> &CompiledSchema {
        self.compiled.get_or_init(|| {
            let tree = setpoint_codec::json::parse(&self.json()).unwrap_or_default();
            let schema = Schema::compile(&tree);
            CompiledSchema {
                has_defaults: schema.has_defaults(),
                schema,
                rule_validator: OnceLock::new(),
            }
        })
    }

    /// The schema as its author wrote it.
    pub(super) fn json(&self) -> Bytes {
        let schema = stored_schema(&self.crd.bytes(), &self.version);
        schema.unwrap_or_else(|| Bytes::from_static(b"null"))
    }

    #[cfg(test)]
    pub(super) fn is_compiled(&self) -> bool {
        self.compiled.get().is_some()
    }
}
