//! [`TypeChecker`]: checks expressions against the types of the objects that a policy matches.

use setpoint_cel::{CompileError, Environment, Type, ValueSchema};

use super::{Variable, composition_schema, declared_type};

/// Checks the expressions of a policy for one kind of objects. Results may have any type, and constants any value.
#[derive(Debug)]
pub struct TypeChecker {
    object: ValueSchema,
    /// If the policy has parameters, their type.
    params: Option<ValueSchema>,
    variables: Vec<(String, Type)>,
}

impl TypeChecker {
    pub fn new(object: ValueSchema, params: Option<ValueSchema>) -> Self {
        Self {
            object,
            params,
            variables: Vec::new(),
        }
    }

    /// Declares a variable of the policy. One that does not compile has any type.
    pub fn add_variable(&mut self, name: &str, source: &str) {
        let own = self.check(source).map_or(Type::Dyn, |own| declared_type(&own));
        self.variables.push((name.to_owned(), own));
    }

    /// The type of an expression, or why it has none.
    pub fn check(&self, source: &str) -> Result<Type, String> {
        match self.environment().compile(source) {
            Ok(program) => Ok(program.result_type().clone()),
            Err(CompileError::Program { result, .. }) => Ok(result),
            Err(error @ CompileError::Invalid(_)) => Err(error.to_string()),
        }
    }

    /// As upstream, without `authorizer.requestResource`.
    fn environment(&self) -> Environment {
        let mut environment = Environment::default();
        for variable in [Variable::NamespaceObject, Variable::Request, Variable::Authorizer] {
            environment = environment.with_variable(variable.name(), variable.schema());
        }
        for variable in [Variable::Object, Variable::OldObject] {
            environment = environment.with_variable(variable.name(), self.object.clone());
        }
        if let Some(params) = &self.params {
            environment = environment.with_variable(Variable::Params.name(), params.clone());
        }
        let variables = composition_schema(&self.variables);
        environment.with_variable(Variable::Variables.name(), variables)
    }
}
