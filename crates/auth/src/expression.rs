//! CEL expressions of the configuration files: match conditions of webhook authorizers, claim mappings and validation
//! rules of JWT authenticators.

use std::sync::Arc;

use setpoint_api::field::Errors;
use setpoint_cel::{CompileError, Environment, ListSemantics, Program, Type, Value, ValueSchema};

/// The most that one evaluation may cost.
const COST_LIMIT: u64 = 1_000_000;

/// A compiled expression with one variable. Two are equal if their sources are.
#[derive(Debug, Clone)]
pub struct Expression {
    source: String,
    program: Arc<Program>,
}

/// What the result of an expression must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedResult {
    /// A bool. The error names the type that the expression has.
    Condition,
    /// A bool.
    Validation,
    /// Anything: the types of claims are known only when there is a token.
    Any,
}

impl Expression {
    /// Compiles an expression; reports it if it does not compile.
    pub(crate) fn compile(
        source: &str,
        environment: &Environment,
        expected: ExpectedResult,
        errors: &Errors,
    ) -> Option<Self> {
        let (own, program) = match environment.compile(source) {
            Ok(program) => (program.result_type().clone(), Ok(program)),
            Err(CompileError::Program { message, result, .. }) => (result, Err(message)),
            Err(error @ CompileError::Invalid(_)) => {
                errors.invalid(source, &format!("compilation failed: {error}"));
                return None;
            }
        };
        if let Some(detail) = expected.check(&own) {
            errors.invalid(source, &detail);
            return None;
        }
        match program {
            Ok(program) => Some(Self {
                source: source.to_owned(),
                program: Arc::new(program),
            }),
            Err(message) => {
                errors.internal(format!("program instantiation failed: {message}"));
                None
            }
        }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Whether the expression selects this field of this variable.
    pub(crate) fn selects(&self, variable: &str, field: &str) -> bool {
        self.program.selects(variable, field)
    }

    /// The value of the expression for this value of its variable.
    pub(crate) fn evaluate<'a>(&'a self, variable: Value<'a>) -> Result<Value<'a>, String> {
        let evaluation = self.program.evaluate(vec![variable], COST_LIMIT);
        let describe = |error| format!("expression '{}' resulted in error: {error}", self.source);
        evaluation.value.map_err(describe)
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Expression {}

impl ExpectedResult {
    /// Why a type is not the expected one.
    fn check(self, own: &Type) -> Option<String> {
        match self {
            _ if *own == Type::Bool => None,
            Self::Any => None,
            Self::Condition => Some(format!("must evaluate to bool but got {}", own.canonical_name())),
            Self::Validation => Some("must evaluate to bool".to_owned()),
        }
    }
}

/// The schema of an object with these fields.
pub(crate) fn object<const N: usize>(name: &str, fields: [(&str, ValueSchema); N]) -> ValueSchema {
    ValueSchema::object(name, fields.map(|(name, schema)| (name.to_owned(), schema)))
}

pub(crate) fn text() -> ValueSchema {
    ValueSchema::scalar(Type::String)
}

pub(crate) fn texts() -> ValueSchema {
    ValueSchema::list(text(), ListSemantics::Atomic)
}
