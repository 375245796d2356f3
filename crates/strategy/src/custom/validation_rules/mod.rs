//! CEL validation rules of custom kinds (`x-kubernetes-validations`).
//!
//! A [`RuleValidator`] has the compiled rules of a schema and is shaped like it. It is compiled once per schema; an
//! evaluation reads the nodes of the object without copying them. Evaluations have a cost limit each, and one budget per
//! request, so that no rule delays a write for longer.
//!
//! Upstream: apiextensions-apiserver `pkg/apiserver/schema/cel`. Start reading at [`RuleValidator`].

mod compilation;
mod declaration;
mod evaluation;
mod field_path;
mod ratcheting;

pub use compilation::{CompiledRule, compile_rules};
pub use declaration::Declaration;
pub use evaluation::{RUNTIME_COST_BUDGET, RuleTarget};
pub use field_path::{FieldPathError, resolve_field_path};

use compact_str::CompactString;

use setpoint_schema::custom::Schema;

/// The compiled rules of a schema node and of the nodes below it. A node without any is absent.
#[derive(Debug)]
pub struct RuleValidator {
    /// In the order of the node's rules.
    rules: Vec<CompiledRule>,
    properties: Vec<(CompactString, RuleValidator)>,
    additional_properties: Option<Box<RuleValidator>>,
    items: Option<Box<RuleValidator>>,
}

impl RuleValidator {
    /// Compiles the rules of a schema; `None` if it has none. `is_resource_root`: the value has `apiVersion`, `kind` and
    /// metadata.
    pub fn compile(schema: &Schema, is_resource_root: bool) -> Option<Self> {
        Self::compile_node(
            schema,
            || Declaration::of(schema, is_resource_root),
            is_resource_root,
        )
    }

    fn compile_node(
        schema: &Schema,
        declare: impl FnOnce() -> Option<Declaration>,
        is_resource_root: bool,
    ) -> Option<Self> {
        let declaration = (!schema.expressions().is_empty()).then(declare).flatten();
        let validator = RuleValidator {
            rules: declaration.map_or_else(Vec::new, |declared| compile_rules(schema, &declared)),
            properties: compile_properties(schema, is_resource_root),
            additional_properties: schema.additional_properties.as_deref().and_then(compile_below),
            items: schema.items.as_deref().and_then(compile_below),
        };
        let is_empty = validator.rules.is_empty()
            && validator.properties.is_empty()
            && validator.additional_properties.is_none()
            && validator.items.is_none();
        (!is_empty).then_some(validator)
    }
}

/// The rules of items or of the values of a map.
fn compile_below(schema: &Schema) -> Option<Box<RuleValidator>> {
    RuleValidator::compile(schema, schema.embedded_resource).map(Box::new)
}

/// The rules of properties. A property whose type expressions cannot name has none, as upstream.
fn compile_properties(schema: &Schema, is_resource_root: bool) -> Vec<(CompactString, RuleValidator)> {
    let declared = schema
        .properties
        .iter()
        .filter(|(_, property)| Declaration::exists(property));
    let compiled = declared.filter_map(|(name, property)| {
        let declare = || match is_resource_root {
            true => Declaration::of_resource_property(schema, name),
            false => Declaration::of(property, property.embedded_resource),
        };
        let validator = RuleValidator::compile_node(property, declare, property.embedded_resource)?;
        Some((name.clone(), validator))
    });
    compiled.collect()
}

#[cfg(test)]
mod tests;
