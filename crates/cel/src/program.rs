//! Compiled expressions.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_schema::Tree;

use crate::cel_type::{ObjectType, Type};
use crate::check::{self, check};
use crate::estimate::{Range, estimate};
use crate::eval::{DeferredFields, EvalError, Frame, NoDeferredFields};
use crate::parser::parse;
use crate::plan::{Step, plan};
use crate::source::CompileError;
use crate::validate::validate;
use crate::value::{Node, Value};
use crate::value_schema::ValueSchema;

/// The variables of expressions, in the order in which an evaluation gets their values.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    names: Vec<String>,
    declared: BTreeMap<String, ValueSchema>,
    objects: BTreeMap<String, Arc<ObjectType>>,
    has_patch_types: bool,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    step: Step,
    result: Type,
    cost: Range,
    /// By position: the schemas with which variables are read.
    variables: Vec<ValueSchema>,
    /// Whether each variable is used.
    used: Vec<bool>,
    /// The fields that are selected directly from a name.
    selections: Vec<(Arc<str>, Arc<str>)>,
}

/// The outcome of an evaluation.
#[derive(Debug)]
pub struct Evaluation<'a> {
    pub value: Result<Value<'a>, EvalError>,
    pub cost: u64,
}

impl Environment {
    /// The same environment with a further variable.
    pub fn with_variable(mut self, name: &str, declared: ValueSchema) -> Self {
        self.names.push(name.to_owned());
        self.declared.insert(name.to_owned(), declared);
        self
    }

    /// The same environment with a type that expressions may construct: `Object{spec: ...}`.
    pub fn with_object(mut self, object: Arc<ObjectType>) -> Self {
        self.objects.insert(object.name.clone(), object);
        self
    }

    /// The same environment with the types and functions of patches: `Object{spec: Object.spec{...}}`, `JSONPatch{...}` and
    /// `jsonpatch.escapeKey`.
    pub fn with_patch_types(mut self) -> Self {
        self.has_patch_types = true;
        self
    }

    /// Compiles an expression.
    pub fn compile(&self, source: &str) -> Result<Program, CompileError> {
        let mut parsed = parse(source)?;
        let types = self.declared.iter();
        let environment = check::Environment {
            variables: types
                .map(|(name, declared)| (name.clone(), declared.own_type().clone()))
                .collect(),
            objects: self.objects.clone(),
            has_patch_types: self.has_patch_types,
        };
        let checked = check(&mut parsed.expr, parsed.nodes, &environment)
            .map_err(|issues| CompileError::new(source, issues))?;
        let issues = validate(&parsed.expr, &checked);
        if !issues.is_empty() {
            return Err(CompileError::new(source, issues));
        }
        let cost = estimate(&parsed.expr, &checked, &self.declared);
        let step = plan(&parsed.expr, &checked, &self.names).map_err(|message| CompileError::Program {
            message,
            result: checked.result.clone(),
            cost,
        })?;
        let used = self.names.iter().map(|name| parsed.expr.names(name)).collect();
        Ok(Program {
            step,
            result: checked.result,
            cost,
            variables: self
                .names
                .iter()
                .map(|name| self.declared[name].clone())
                .collect(),
            used,
            selections: parsed.expr.selections(),
        })
    }
}

impl Program {
    /// The type of the result.
    pub fn result_type(&self) -> &Type {
        &self.result
    }

    /// What an evaluation may cost.
    pub fn estimated_cost(&self) -> Range {
        self.cost
    }

    /// Whether the expression refers to the variable at this position of the environment.
    pub fn uses(&self, variable: usize) -> bool {
        self.used[variable]
    }

    /// Whether the expression selects this field of this variable: `variable.field`, also optionally or in `has()`.
    pub fn selects(&self, variable: &str, field: &str) -> bool {
        let mut selections = self.selections.iter();
        selections.any(|(own, selected)| **own == *variable && **selected == *field)
    }

    /// The value of an object for the variable at this position.
    pub fn bind<'a>(&'a self, variable: usize, object: &'a Tree) -> Value<'a> {
        Node::new(object, &self.variables[variable]).value()
    }

    /// Evaluates with these values of the environment's variables. Stops when the cost is above the limit.
    pub fn evaluate<'a>(&'a self, variables: Vec<Value<'a>>, cost_limit: u64) -> Evaluation<'a> {
        self.evaluate_with(variables, &NoDeferredFields, cost_limit)
    }

    /// The same where a variable is [`Value::DEFERRED`]: its fields are computed when the expression selects them.
    pub fn evaluate_with<'a>(
        &'a self,
        variables: Vec<Value<'a>>,
        deferred: &dyn DeferredFields<'a>,
        cost_limit: u64,
    ) -> Evaluation<'a> {
        let mut frame = Frame::new(variables, deferred, cost_limit);
        let value = frame.eval(&self.step);
        Evaluation {
            value,
            cost: frame.cost,
        }
    }
}
