//! [`Inputs`]: the values of the variables of expressions.

use setpoint_cel::{Check, Value};
use setpoint_kinds::admissionregistration::expressions::{Expression, Variable};
use setpoint_schema::Tree;

use super::RequestAuthorizer;

/// The values of the variables, as trees with the fields that JSON has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) object: Option<&'a Tree>,
    pub(crate) old_object: Option<&'a Tree>,
    /// The AdmissionRequest, without the objects.
    pub(crate) request: &'a Tree,
    pub(crate) namespace: Option<&'a Tree>,
    pub(crate) params: Option<&'a Tree>,
    pub(crate) authorizer: &'a RequestAuthorizer,
}

impl<'a> Inputs<'a> {
    /// The values of the variables of an expression, in its order. Types are declared for the check alone: at run time a
    /// creation timestamp is a string, also that of the namespace.
    pub(super) fn values(&self, expression: &'a Expression) -> Vec<Value<'a>> {
        let tree = |tree: Option<&'a Tree>| tree.map_or(Value::Null, Value::from_tree);
        let value = |variable: &Variable| match variable {
            Variable::Object => tree(self.object),
            Variable::OldObject => tree(self.old_object),
            Variable::NamespaceObject => tree(self.namespace),
            Variable::Request => Value::from_tree(self.request),
            Variable::Params => tree(self.params),
            Variable::Authorizer => Check::new(self.authorizer.checks.clone()).into_value(),
            Variable::RequestResource => {
                let resource = self.authorizer.resource.clone();
                Check::of_resource(self.authorizer.checks.clone(), resource).into_value()
            }
            Variable::Variables => Value::DEFERRED,
        };
        expression.variables.iter().map(value).collect()
    }
}
