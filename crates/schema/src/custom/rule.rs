//! Validation rules of a schema (`x-kubernetes-validations`). This crate stores their text; it does not know CEL.

use compact_str::CompactString;

use super::Schema;

/// One rule, as in the CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub expression: String,
    /// The error message when the rule evaluates to false.
    pub message: Option<String>,
    /// An expression that evaluates to the error message.
    pub message_expression: Option<String>,
    /// The error type, such as `FieldValueForbidden`.
    pub reason: Option<CompactString>,
    /// The path of the reported field, relative to the value of the rule: `.a.b`.
    pub field_path: Option<String>,
    /// Whether `oldSelf` is optional, so that a transition rule is also evaluated where there is no old value.
    pub optional_old_self: bool,
}

impl Schema {
    /// The rules of this node.
    pub fn expressions(&self) -> &[Rule] {
        self.value_validation
            .as_ref()
            .map_or(&[], |rules| &rules.expressions)
    }

    /// Whether this node or any below has a rule.
    pub fn has_expressions(&self) -> bool {
        let below = self.properties.iter().map(|(_, schema)| schema);
        let below = below
            .chain(self.additional_properties.as_deref())
            .chain(self.items.as_deref());
        !self.expressions().is_empty() || below.into_iter().any(Schema::has_expressions)
    }
}
