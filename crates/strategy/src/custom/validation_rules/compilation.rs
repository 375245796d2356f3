//! Compilation of rules (upstream: `compileRule` in `compilation.go`).

use setpoint_cel::{CompileError, Environment, Program, Type};
use setpoint_schema::custom::{Rule, Schema};

use super::declaration::Declaration;
use super::field_path::resolve_field_path;

/// The positions of the variables of rules.
pub(super) const SELF: usize = 0;
pub(super) const OLD_SELF: usize = 1;

/// A compiled rule.
#[derive(Debug)]
pub struct CompiledRule {
    /// The rule or why it does not compile; `None` if it is blank.
    pub(super) rule: Option<Result<Program, String>>,
    /// The message expression or why it does not compile; `None` if there is none.
    pub(super) message: Option<Result<Program, String>>,
    /// The reported field as errors print it, relative to the value of the rule.
    pub(super) field_path: Option<String>,
}

impl CompiledRule {
    /// Why the rule does not compile.
    pub fn error(&self) -> Option<&str> {
        error_of(self.rule.as_ref())
    }

    /// Why the message expression does not compile.
    pub fn message_error(&self) -> Option<&str> {
        error_of(self.message.as_ref())
    }

    /// Whether the rule is a transition rule.
    pub fn uses_old_self(&self) -> bool {
        program_of(self.rule.as_ref()).is_some_and(|program| program.uses(OLD_SELF))
    }

    /// The most that one evaluation of the rule may cost, by estimate.
    pub fn max_cost(&self) -> u64 {
        program_of(self.rule.as_ref()).map_or(0, |program| program.estimated_cost().max)
    }

    /// The most that one evaluation of the message expression may cost; `None` if there is none that compiles.
    pub fn message_max_cost(&self) -> Option<u64> {
        Some(program_of(self.message.as_ref())?.estimated_cost().max)
    }
}

fn error_of(outcome: Option<&Result<Program, String>>) -> Option<&str> {
    outcome?.as_ref().err().map(String::as_str)
}

fn program_of(outcome: Option<&Result<Program, String>>) -> Option<&Program> {
    outcome?.as_ref().ok()
}

/// Compiles the rules of a schema node.
pub fn compile_rules(schema: &Schema, declaration: &Declaration) -> Vec<CompiledRule> {
    let value = declaration.value();
    let environment = |old_self| {
        Environment::default()
            .with_variable("self", value.clone())
            .with_variable("oldSelf", old_self)
    };
    let (plain, optional) = (
        environment(value.clone()),
        environment(value.clone().into_optional()),
    );
    let rules = schema.expressions().iter();
    let compiled = rules.map(|rule| match rule.optional_old_self {
        true => compile_rule(rule, schema, &optional),
        false => compile_rule(rule, schema, &plain),
    });
    compiled.collect()
}

fn compile_rule(rule: &Rule, schema: &Schema, environment: &Environment) -> CompiledRule {
    let mut compiled = CompiledRule {
        rule: None,
        message: None,
        field_path: None,
    };
    if rule.expression.trim().is_empty() {
        return compiled;
    }
    let program = compile(environment, &rule.expression, &Type::Bool);
    let program = program.map_err(|error| match error {
        ExpressionError::Compilation(text) => format!("compilation failed: {text}"),
        ExpressionError::Result => "cel expression must evaluate to a bool".to_owned(),
        ExpressionError::Program(text) => format!("program instantiation failed: {text}"),
    });
    if program.is_ok() {
        let source = rule.message_expression.as_deref();
        compiled.message = source.map(|source| compile_message(environment, source));
        let path = rule.field_path.as_deref();
        let resolved = path.and_then(|path| resolve_field_path(path, schema, true).ok());
        compiled.field_path = resolved.map(|(printed, _)| printed);
    }
    compiled.rule = Some(program);
    compiled
}

fn compile_message(environment: &Environment, source: &str) -> Result<Program, String> {
    compile(environment, source, &Type::String).map_err(|error| match error {
        ExpressionError::Compilation(text) => format!("messageExpression compilation failed: {text}"),
        ExpressionError::Result => "messageExpression must evaluate to a string".to_owned(),
        ExpressionError::Program(text) => format!("messageExpression instantiation failed: {text}"),
    })
}

/// Why an expression cannot be used.
enum ExpressionError {
    Compilation(String),
    /// Its result has another type.
    Result,
    Program(String),
}

fn compile(environment: &Environment, source: &str, expected: &Type) -> Result<Program, ExpressionError> {
    match environment.compile(source) {
        Ok(program) if program.result_type() == expected => Ok(program),
        Err(CompileError::Program { message, result, .. }) if result == *expected => {
            Err(ExpressionError::Program(message))
        }
        Ok(_) | Err(CompileError::Program { .. }) => Err(ExpressionError::Result),
        Err(CompileError::Invalid(text)) => Err(ExpressionError::Compilation(text)),
    }
}
