//! The schema of one version, which is read when it is first needed.
//!
//! Most definitions in a cluster are idle: nobody reads or writes their objects. Until somebody does, all that is kept of
//! a schema are the bytes of the definition, which the store keeps anyway, packed.

use std::sync::OnceLock;

use bytes::Bytes;
use compact_str::CompactString;

use setpoint_schema::custom::Schema;

use crate::apiextensions::custom_resource_definition::stored_schema;

/// A schema, and where it comes from.
#[derive(Debug)]
pub(super) struct Lazy {
    /// The whole definition, as it is stored.
    definition: Bytes,
    version: CompactString,
    compiled: OnceLock<Compiled>,
}

/// A schema that was needed.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) schema: Schema,
    pub(super) has_defaults: bool,
}

impl Lazy {
    pub(super) fn new(definition: &Bytes, version: &str) -> Self {
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
        let schema = stored_schema(&self.definition, &self.version);
        schema.unwrap_or_else(|| Bytes::from_static(b"null"))
    }

    #[cfg(test)]
    pub(super) fn is_compiled(&self) -> bool {
        self.compiled.get().is_some()
    }
}
