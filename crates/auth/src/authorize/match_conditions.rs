//! [`MatchConditions`]: CEL conditions on a request that all must be true for a webhook authorizer to be called.

use std::collections::HashSet;
use std::sync::LazyLock;

use setpoint_api::User;
use setpoint_api::field::Errors;
use setpoint_api::selector::FieldSelector;
use setpoint_cel::{Environment, Value, ValueSchema};
use setpoint_schema::Tree;

use super::{AccessTarget, Attributes};
use crate::expression::{ExpectedResult, Expression, object, text, texts};

const MAX: usize = 64;

/// Compiled match conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MatchConditions {
    expressions: Vec<Expression>,
}

static ENVIRONMENT: LazyLock<Environment> =
    LazyLock::new(|| Environment::default().with_variable("request", request_schema()));

impl MatchConditions {
    /// Compiles conditions, and reports those that are invalid.
    pub(super) fn compile(sources: &[String], errors: &Errors) -> Self {
        if sources.len() > MAX {
            errors.too_many(sources.len(), MAX);
            return Self::default();
        }
        let mut seen = HashSet::new();
        let mut expressions = Vec::new();
        for (index, source) in sources.iter().enumerate() {
            let at = errors.index(index).at("expression");
            if source.trim().is_empty() {
                at.required("");
            } else if !seen.insert(source) {
                at.duplicate(source.as_str());
            } else {
                let compiled = Expression::compile(source, &ENVIRONMENT, ExpectedResult::Condition, &at);
                expressions.extend(compiled);
            }
        }
        Self { expressions }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Whether all conditions are true. One that is false decides before errors of others.
    pub(super) fn evaluate(&self, user: &User, attributes: &Attributes<'_>) -> Result<bool, String> {
        let request = request_tree(user, attributes);
        let mut errors = Vec::new();
        for expression in &self.expressions {
            match expression.evaluate(Value::from_tree(&request)) {
                Ok(Value::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(error) => errors.push(format!("cel evaluation error: {error}")),
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            [only] => Err(only.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

/// The spec of a SubjectAccessReview.
fn request_schema() -> ValueSchema {
    let requirement = || {
        object(
            "kubernetes.SelectorRequirement",
            [("key", text()), ("operator", text()), ("values", texts())],
        )
    };
    let selector = |name: &str| {
        let requirements = ValueSchema::list(requirement(), setpoint_cel::ListSemantics::Atomic);
        object(name, [("rawSelector", text()), ("requirements", requirements)])
    };
    let resource = object(
        "kubernetes.ResourceAttributes",
        [
            ("namespace", text()),
            ("verb", text()),
            ("group", text()),
            ("version", text()),
            ("resource", text()),
            ("subresource", text()),
            ("name", text()),
            ("fieldSelector", selector("kubernetes.FieldSelectorAttributes")),
            ("labelSelector", selector("kubernetes.LabelSelectorAttributes")),
        ],
    );
    let path = object(
        "kubernetes.NonResourceAttributes",
        [("path", text()), ("verb", text())],
    );
    object(
        "kubernetes.SubjectAccessReviewSpec",
        [
            ("resourceAttributes", resource),
            ("nonResourceAttributes", path),
            ("user", text()),
            ("groups", texts()),
            ("extra", ValueSchema::map(texts())),
            ("uid", text()),
        ],
    )
}

/// The request as conditions read it: all attributes are there, even if they are empty.
fn request_tree(user: &User, attributes: &Attributes<'_>) -> Tree {
    let list = |texts: &[String]| Tree::List(texts.iter().map(|text| Tree::from(text.as_str())).collect());
    let mut tree = Tree::default();
    tree.set(&["user"], user.name.as_str());
    tree.set(&["uid"], user.uid.as_str());
    tree.set(&["groups"], list(&user.groups));
    tree.set(&["extra"], setpoint_schema::Map::default());
    for (key, values) in &user.extra {
        tree.set(&["extra", key], list(values));
    }
    match attributes.target {
        AccessTarget::Path(path) => {
            tree.set(&["nonResourceAttributes", "path"], path);
            tree.set(&["nonResourceAttributes", "verb"], attributes.verb);
        }
        AccessTarget::Resource {
            group,
            resource,
            subresource,
            namespace,
            name,
        } => {
            for (field, value) in [
                ("namespace", namespace),
                ("verb", attributes.verb),
                ("group", group),
                ("version", attributes.version),
                ("resource", resource),
                ("subresource", subresource),
                ("name", name),
            ] {
                tree.set(&["resourceAttributes", field], value);
            }
            if let Some(selector) = attributes.fields.filter(|selector| !selector.is_empty()) {
                let path = ["resourceAttributes", "fieldSelector", "requirements"];
                tree.set(&path, requirements(selector));
            }
        }
    }
    tree
}

fn requirements(selector: &FieldSelector) -> Tree {
    let requirement = |(key, value, equal): (&str, &str, bool)| {
        let mut tree = Tree::default();
        tree.set(&["key"], key);
        tree.set(&["operator"], if equal { "In" } else { "NotIn" });
        tree.set(&["values"], vec![Tree::from(value)]);
        tree
    };
    Tree::List(selector.terms().map(requirement).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(sources: &[&str]) -> Result<MatchConditions, Vec<String>> {
        let sources: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
        let errors = Errors::default();
        let conditions = MatchConditions::compile(&sources, &errors.at("matchConditions"));
        match errors.is_empty() {
            true => Ok(conditions),
            false => Err(errors.into_vec().iter().map(ToString::to_string).collect()),
        }
    }

    #[track_caller]
    fn check(sources: &[&str], expected: Result<bool, &str>) {
        let target = AccessTarget::Resource {
            group: "",
            resource: "pods",
            subresource: "",
            namespace: "kube-system",
            name: "",
        };
        let user = User::new("jane", &["devs"]);
        let outcome = compile(sources)
            .unwrap()
            .evaluate(&user, &Attributes::new("list", target));
        assert_eq!(outcome, expected.map_err(str::to_owned));
    }

    #[test]
    fn all_conditions_must_be_true() {
        check(&["request.user == 'jane'", "'devs' in request.groups"], Ok(true));
        check(&["has(request.resourceAttributes)"], Ok(true));
        check(&["request.resourceAttributes.namespace == 'default'"], Ok(false));
        check(
            &["request.resourceAttributes.name == '' && request.extra.size() == 0"],
            Ok(true),
        );
    }

    #[test]
    fn a_false_condition_decides_before_an_error() {
        let error = "request.nonResourceAttributes.path == '/x'";
        check(&[error, "false"], Ok(false));
        check(
            &[error],
            Err(
                "cel evaluation error: expression 'request.nonResourceAttributes.path == '/x'' resulted in error: no such key: nonResourceAttributes",
            ),
        );
    }

    #[test]
    fn invalid_conditions_are_reported() {
        let error = |sources: &[&str]| compile(sources).unwrap_err().join("; ");
        assert_eq!(error(&[" "]), "matchConditions[0].expression: Required value");
        assert_eq!(
            error(&["true", "true"]),
            "matchConditions[1].expression: Duplicate value: \"true\""
        );
        assert_eq!(
            error(&["request.user"]),
            "matchConditions[0].expression: Invalid value: \"request.user\": must evaluate to bool but got string"
        );
        assert!(
            error(&["request.foo == 1"]).starts_with(
                "matchConditions[0].expression: Invalid value: \"request.foo == 1\": compilation failed: ERROR: <input>:1:8: undefined field 'foo'"
            )
        );
    }
}
