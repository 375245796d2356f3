//! CEL expressions of admission policies and match conditions: the variables they may use, the results they must have,
//! and the errors of those that do not compile.
//!
//! Validation compiles an expression when its object is written, admission when it first uses the object; both get the
//! same errors. Upstream has a second set of functions for stored expressions, so that an expression stays valid after a
//! downgrade; it differs in a function that no new expression may use, so that no stored expression has it.

mod type_checker;
mod variables;

use setpoint_cel::{CompileError, Environment, Program, Type, ValueSchema};

use setpoint_strategy::FieldRef;

pub use type_checker::TypeChecker;
pub use variables::{OptionalVariables, Variable};

/// The most that one evaluation may cost.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

/// A compiled expression.
#[derive(Debug)]
pub struct Expression {
    pub program: Program,
    /// The variables of the program, in the order in which an evaluation gets their values.
    pub variables: Vec<Variable>,
}

/// The type that the result of an expression must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultType {
    Bool,
    String,
    StringOrNull,
    /// `Object{...}`: fields to be merged into the object.
    ApplyConfiguration,
    /// A list of `JSONPatch{...}`.
    JsonPatch,
    Any,
}

/// Why an expression does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("{0}")]
    Invalid(String),
    /// Upstream reports an invalid constant, such as `int('x')`, as an internal error.
    #[error("{0}")]
    Internal(String),
}

/// Compiles the expressions of one object. With composition, expressions may use the variables that were added before:
/// `variables.name`.
#[derive(Debug, Default)]
pub struct Compiler {
    composition: Option<Vec<(String, Type)>>,
}

impl Compiler {
    /// A compiler of expressions that may use `variables`.
    pub fn with_composition() -> Self {
        Self {
            composition: Some(Vec::new()),
        }
    }

    /// Compiles an expression.
    pub fn compile(
        &self,
        source: &str,
        optional: OptionalVariables,
        result: ResultType,
    ) -> Result<Expression, ExpressionError> {
        let variables = optional.variables(self.composition.is_some());
        let program = match self.environment(&variables, result).compile(source) {
            Ok(program) => result.check(program.result_type()).map(|()| program),
            Err(CompileError::Program {
                message, result: own, ..
            }) => {
                let failed = format!("program instantiation failed: {message}");
                result.check(&own).and(Err(ExpressionError::Internal(failed)))
            }
            Err(error @ CompileError::Invalid(_)) => {
                Err(ExpressionError::Invalid(format!("compilation failed: {error}")))
            }
        };
        program.map(|program| Expression { program, variables })
    }

    /// Validates the expression of a field.
    pub(super) fn validate(
        &self,
        field: &FieldRef<'_>,
        source: &str,
        optional: OptionalVariables,
        result: ResultType,
    ) {
        if let Err(error) = self.compile(source, optional, result) {
            error.report(field, source);
        }
    }

    /// Compiles a variable, which later expressions may use. One that does not compile can still be named.
    pub fn add_variable(
        &mut self,
        name: &str,
        source: &str,
        optional: OptionalVariables,
    ) -> Result<Expression, ExpressionError> {
        let compiled = self.compile(source, optional, ResultType::Any);
        let own = compiled.as_ref().map_or(Type::Dyn, |expression| {
            declared_type(expression.program.result_type())
        });
        let declared = self.composition.get_or_insert_default();
        declared.retain(|(other, _)| other != name);
        declared.push((name.to_owned(), own));
        compiled
    }

    fn environment(&self, variables: &[Variable], result: ResultType) -> Environment {
        let mut environment = Environment::default();
        for variable in variables {
            let schema = match variable {
                Variable::Variables => composition_schema(self.composition.as_deref().unwrap_or_default()),
                variable => variable.schema(),
            };
            environment = environment.with_variable(variable.name(), schema);
        }
        match result.constructs_patches() {
            true => environment.with_patch_types(),
            false => environment,
        }
    }
}

/// The schema of `variables`: the variables of a policy as its fields.
fn composition_schema(variables: &[(String, Type)]) -> ValueSchema {
    let fields = variables.iter();
    let fields = fields.map(|(name, own)| (name.clone(), ValueSchema::scalar(own.clone())));
    ValueSchema::object("kubernetes.variables", fields)
}

impl ExpressionError {
    /// Reports the error at the field of the expression.
    pub(super) fn report(&self, field: &FieldRef<'_>, source: &str) {
        match self {
            Self::Invalid(detail) => field.invalid_as(source, detail),
            Self::Internal(detail) => field.errors().internal(detail),
        }
    }
}

impl ResultType {
    fn constructs_patches(self) -> bool {
        matches!(self, Self::ApplyConfiguration | Self::JsonPatch)
    }

    fn check(self, own: &Type) -> Result<(), ExpressionError> {
        let own = own.canonical_name();
        let expected: &[&str] = match self {
            Self::Any => return Ok(()),
            Self::Bool => &["bool"],
            Self::String => &["string"],
            Self::StringOrNull => &["string", "null_type"],
            Self::ApplyConfiguration => &["Object"],
            Self::JsonPatch => &["list(JSONPatch)"],
        };
        let text = match expected {
            expected if expected.contains(&own.as_str()) => return Ok(()),
            [only] => format!("must evaluate to {only} but got {own}"),
            several => format!("must evaluate to one of [{}] but got {own}", several.join(" ")),
        };
        Err(ExpressionError::Invalid(text))
    }
}

/// The type of a variable for the expressions that use it: that of its expression, if it is of plain values.
fn declared_type(own: &Type) -> Type {
    match own {
        Type::List(element) => Type::list(declared_type(element)),
        Type::Map(entry) => Type::map(declared_type(&entry.0), declared_type(&entry.1)),
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => own.clone(),
        _ => Type::Dyn,
    }
}

#[cfg(test)]
mod tests;
