//! CEL expressions of a TestAssert, on the objects that it refers to.

use anyhow::{Context as _, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use setpoint_cel::{Environment, Program, Type, ValueSchema, display};
use setpoint_codec::to_tree;

use crate::check::resource_id;
use crate::step::StepContext;

/// What an evaluation may cost, as in a policy.
const COST_LIMIT: u64 = 10_000_000;

/// An object, and its name in expressions.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceRef {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    #[serde(rename = "ref")]
    variable: String,
}

/// An expression.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Assertion {
    #[serde(rename = "celExpr")]
    expression: String,
}

/// The compiled expressions of a TestAssert.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    refs: Vec<ResourceRef>,
    /// One of them must be true.
    any: Vec<(String, Program)>,
    /// Each of them must be true.
    all: Vec<(String, Program)>,
}

impl Expressions {
    /// Compiles expressions, with a variable for each object.
    pub(crate) fn compile(refs: &[ResourceRef], any: &[Assertion], all: &[Assertion]) -> Result<Self> {
        let mut environment = Environment::default();
        for own in refs {
            own.check()?;
            environment = environment.with_variable(&own.variable, ValueSchema::scalar(Type::Dyn));
        }
        let compile = |assertions: &[Assertion]| -> Result<Vec<(String, Program)>> {
            let compile = |assertion: &Assertion| {
                let text = &assertion.expression;
                let program = environment.compile(text).map_err(|error| {
                    anyhow!("failed to build CEL program from expression {text:?}: type-check error: {error}")
                })?;
                Ok((text.clone(), program))
            };
            assertions.iter().map(compile).collect()
        };
        Ok(Self {
            refs: refs.to_vec(),
            any: compile(any)?,
            all: compile(all)?,
        })
    }

    /// Evaluates the expressions on the current objects.
    pub(crate) async fn check(&self, context: &StepContext<'_>) -> Result<()> {
        if self.any.is_empty() && self.all.is_empty() {
            return Ok(());
        }
        let mut objects = Vec::new();
        for own in &self.refs {
            let object = context
                .with_namespace(&own.object())
                .await
                .map_err(|status| anyhow!("{}", status.message))?;
            let found = context.objects.find(&object).await;
            let found = found.map_err(|status| anyhow!("{}", status.message))?;
            objects.push(found.with_context(|| format!("{} not found", resource_id(&object)))?);
        }
        self.evaluate(&objects)
    }

    fn evaluate(&self, objects: &[Value]) -> Result<()> {
        let failures = |expressions: &[(String, Program)]| -> Vec<String> {
            let failures = expressions
                .iter()
                .filter_map(|(text, program)| evaluate(text, program, objects).err());
            failures.map(|error| error.to_string()).collect()
        };
        let (any, all) = (failures(&self.any), failures(&self.all));
        if !self.any.is_empty() && any.len() == self.any.len() {
            bail!("no expression evaluated to true: {}", any.join("\n"));
        }
        match all.is_empty() {
            true => Ok(()),
            false => bail!(
                "not all assertAll expressions evaluated to true: {}",
                all.join("\n")
            ),
        }
    }
}

impl ResourceRef {
    fn check(&self) -> Result<()> {
        let fields = [
            ("apiVersion", &self.api_version),
            ("kind", &self.kind),
            ("name", &self.name),
            ("ref", &self.variable),
        ];
        for (name, value) in fields {
            if value.is_empty() {
                bail!("failed to load resource reference(s): {name} not specified");
            }
        }
        Ok(())
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {"name": self.name, "namespace": self.namespace},
        })
    }
}

fn evaluate(text: &str, program: &Program, objects: &[Value]) -> Result<()> {
    let trees = objects
        .iter()
        .map(|object| to_tree(object).map_err(|error| anyhow!("{error}")))
        .collect::<Result<Vec<_>>>()?;
    let variables = trees.iter().enumerate();
    let variables = variables.map(|(index, tree)| program.bind(index, tree));
    let value = program.evaluate(variables.collect(), COST_LIMIT).value;
    let value = value.map_err(|error| anyhow!("failed to evaluate CEL expression: {error}"))?;
    match display(&value).as_str() {
        "true" => Ok(()),
        other => bail!("expression {text:?} evaluated to '{other}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(any: &[&str], all: &[&str], expected: Result<(), &str>) {
        let assertions = |texts: &[&str]| -> Vec<Assertion> {
            let assertion = |text: &&str| Assertion {
                expression: (*text).to_owned(),
            };
            texts.iter().map(assertion).collect()
        };
        let reference = ResourceRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: "a".to_owned(),
            variable: "pod".to_owned(),
            ..ResourceRef::default()
        };
        let pod = json!({"status": {"phase": "Running", "restarts": 2}});
        let outcome = Expressions::compile(&[reference], &assertions(any), &assertions(all))
            .and_then(|expressions| expressions.evaluate(&[pod]));
        match (outcome, expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
            (outcome, expected) => panic!("{outcome:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn one_of_some_expressions_and_all_of_others_are_true() {
        check(
            &["pod.status.phase == 'Failed'", "pod.status.restarts > 1"],
            &[],
            Ok(()),
        );
        check(
            &[],
            &["pod.status.phase == 'Running'", "pod.status.restarts == 2"],
            Ok(()),
        );
    }

    #[test]
    fn an_expression_that_is_not_true_is_named() {
        check(
            &["pod.status.phase == 'Failed'"],
            &[],
            Err(
                "no expression evaluated to true: expression \"pod.status.phase == 'Failed'\" evaluated to 'false'",
            ),
        );
        check(&[], &["pod.status.missing == 1"], Err("no such key: missing"));
        check(&[], &["other.status"], Err("failed to build CEL program"));
    }
}
