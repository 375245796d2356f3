//! The schema of one version, which is read when it is first needed.
//!
//! Most definitions in a cluster are idle: nobody reads or writes their objects. Until somebody does, all that is kept of
//! a schema are the bytes of the definition, which the store keeps anyway, packed.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use compact_str::CompactString;
use parking_lot::Mutex;

use setpoint_schema::custom::Schema;

use crate::apiextensions::custom_resource_definition::stored_schema;

/// A definition as it is stored. Its kinds hold the version that the store holds as well, not an old one besides.
#[derive(Debug, Default)]
pub struct Source(Mutex<Bytes>);

/// A schema, and where it comes from.
#[derive(Debug)]
pub(super) struct Lazy {
    definition: Arc<Source>,
    version: CompactString,
    compiled: OnceLock<Compiled>,
}

/// A schema that was needed.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) schema: Schema,
    pub(super) has_defaults: bool,
}

impl Source {
    pub fn new(stored: &Bytes) -> Self {
        Self(Mutex::new(stored.clone()))
    }

    /// A version of the definition with the same schemas.
    pub fn renew(&self, stored: &Bytes) {
        *self.0.lock() = stored.clone();
    }

    pub(super) fn stored(&self) -> Bytes {
        self.0.lock().clone()
    }
}

impl Lazy {
    pub(super) fn new(definition: &Arc<Source>, version: &str) -> Self {
        Self {
            definition: definition.clone(),
            version: version.into(),
            compiled: OnceLock::new(),
        }
    }

    pub(super) fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| {
            let tree = setpoint_codec::json::parse(&self.json()).unwrap_or_default();
            let schema = Schema::compile(&tree);
            Compiled {
                has_defaults: schema.has_defaults(),
                schema,
            }
        })
    }

    /// The schema as its author wrote it.
    pub(super) fn json(&self) -> Bytes {
        let schema = stored_schema(&self.definition.stored(), &self.version);
        schema.unwrap_or_else(|| Bytes::from_static(b"null"))
    }

    #[cfg(test)]
    pub(super) fn is_compiled(&self) -> bool {
        self.compiled.get().is_some()
    }
}
