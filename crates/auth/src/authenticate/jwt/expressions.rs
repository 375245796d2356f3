//! CEL expressions of a JWT authenticator: from claims to user attributes, and rules for claims and users.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::{Map, Value as Json};
use setpoint_api::field::Errors;
use setpoint_api::{User, name};
use setpoint_cel::{Environment, Type, Value, ValueSchema};
use setpoint_schema::{Tree, to_tree};

use super::config::{ExtraObject, ValidationRule};
use crate::expression::{ExpectedResult, Expression, object, text, texts};

const CLAIMS: &str = "claims";
const EMAIL_NOT_VERIFIED: &str = "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression";
const NO_STRINGS: &str = "expression must return a string or a list of strings";

/// The expressions of an authenticator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimExpressions {
    pub(super) username: Option<Expression>,
    pub(super) groups: Option<Expression>,
    pub(super) uid: Option<Expression>,
    /// By the key of the extra attribute.
    pub(super) extra: Vec<(String, Expression)>,
    pub(super) claim_rules: Vec<Rule>,
    pub(super) user_rules: Vec<Rule>,
}

/// A rule that must be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    expression: Expression,
    message: String,
}

static CLAIMS_ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let claims = ValueSchema::map(ValueSchema::scalar(Type::Dyn));
    Environment::default().with_variable(CLAIMS, claims)
});

static USER_ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let user = object(
        "kubernetes.UserInfo",
        [
            ("username", text()),
            ("uid", text()),
            ("groups", texts()),
            ("extra", ValueSchema::map(texts())),
        ],
    );
    Environment::default().with_variable("user", user)
});

/// Compiles an expression that maps claims.
pub(super) fn compile_mapping(source: &str, errors: &Errors) -> Option<Expression> {
    Expression::compile(source, &CLAIMS_ENVIRONMENT, ExpectedResult::Any, errors)
}

/// Compiles the expressions among the rules for claims.
pub(super) fn compile_claim_rules(rules: &[ValidationRule], errors: &Errors) -> Vec<Rule> {
    let mut seen = HashSet::new();
    let mut compiled = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        if rule.expression.is_empty() || !rule.claim.is_empty() {
            continue;
        }
        let at = errors.index(index);
        if !rule.required_value.is_empty() {
            let value = at.at("requiredValue");
            value.invalid(
                rule.required_value.as_str(),
                "may not be specified when expression is set",
            );
        }
        compiled.extend(compile_rule(rule, &CLAIMS_ENVIRONMENT, &mut seen, &at));
    }
    compiled
}

/// Compiles the rules for users.
pub(super) fn compile_user_rules(rules: &[ValidationRule], errors: &Errors) -> Vec<Rule> {
    let mut seen = HashSet::new();
    let mut compiled = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let at = errors.index(index);
        match rule.expression.as_str() {
            "" => at.at("expression").required(""),
            _ => compiled.extend(compile_rule(rule, &USER_ENVIRONMENT, &mut seen, &at)),
        }
    }
    compiled
}

fn compile_rule<'a>(
    rule: &'a ValidationRule,
    environment: &Environment,
    seen: &mut HashSet<&'a str>,
    errors: &Errors,
) -> Option<Rule> {
    let at = errors.at("expression");
    if !seen.insert(&rule.expression) {
        at.duplicate(rule.expression.as_str());
        return None;
    }
    let expression = Expression::compile(&rule.expression, environment, ExpectedResult::Validation, &at)?;
    Some(Rule {
        expression,
        message: rule.message.clone(),
    })
}

/// Compiles the mappings of extra attributes.
pub(super) fn compile_extra(mappings: &[ExtraObject], errors: &Errors) -> Vec<(String, Expression)> {
    let mut seen = HashSet::new();
    let mut compiled = Vec::new();
    for (index, mapping) in mappings.iter().enumerate() {
        let at = errors.index(index);
        validate_key(&mapping.key, &at.at("key"));
        if !seen.insert(&mapping.key) {
            at.at("key").duplicate(mapping.key.as_str());
            continue;
        }
        let value = at.at("valueExpression");
        match mapping.value_expression.as_str() {
            "" => value.required(""),
            source => compiled.extend(compile_mapping(source, &value).map(|one| (mapping.key.clone(), one))),
        }
    }
    compiled
}

/// Validates the key of an extra attribute: a lowercase path with a domain that is not Kubernetes' own.
fn validate_key(key: &str, errors: &Errors) {
    let (host, path) = key.split_once('/').unwrap_or_default();
    match key {
        "" => errors.required(""),
        _ if host.is_empty() || path.is_empty() => {
            errors.invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        }
        _ => validate_path(host, path, errors),
    }
    if key.chars().any(char::is_uppercase) {
        errors.invalid(key, "must be lowercase");
    }
    let is_within = |domain: &str| host == domain || host.ends_with(&format!(".{domain}"));
    if is_within("kubernetes.io") || is_within("k8s.io") {
        let detail = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
        errors.invalid(key, detail);
    }
}

fn validate_path(host: &str, path: &str, errors: &Errors) {
    for violation in name::check_dns1123_subdomain(host) {
        errors.invalid(host, &violation);
    }
    let is_valid =
        |character: char| character.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(character);
    if !path.chars().all(is_valid) {
        let detail = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        errors.invalid(path, detail);
    }
}

impl ClaimExpressions {
    /// Reports a user name that is an email address and not checked to be a verified one.
    pub(super) fn validate_email(&self, errors: &Errors) {
        let Some(username) = self.username.as_ref().filter(|one| one.selects(CLAIMS, "email")) else {
            return;
        };
        let extra = self.extra.iter().map(|(_, expression)| expression);
        let rules = self.claim_rules.iter().map(|rule| &rule.expression);
        let mut all = extra.chain(rules).chain([username]);
        if !all.any(|expression| expression.selects(CLAIMS, "email_verified")) {
            errors.invalid(username.source(), EMAIL_NOT_VERIFIED);
        }
    }

    fn uses_claims(&self) -> bool {
        self.username.is_some()
            || self.groups.is_some()
            || self.uid.is_some()
            || !self.extra.is_empty()
            || !self.claim_rules.is_empty()
    }

    /// The claims as expressions read them; null if there are none of them. Numbers are doubles, as in Go.
    pub(super) fn claims_tree(&self, claims: &Map<String, Json>) -> Result<Tree, String> {
        if !self.uses_claims() {
            return Ok(Tree::Null);
        }
        let mut tree = to_tree(claims).map_err(|error| error.to_string())?;
        use_doubles(&mut tree);
        Ok(tree)
    }

    /// Sets the attributes of a user that expressions compute.
    pub(super) fn map(&self, claims: &Tree, user: &mut User) -> Result<(), String> {
        if let Some(expression) = &self.username {
            let what = "error evaluating username claim expression";
            user.name = text_of(expression, claims)
                .map_err(|error| format!("{what}: {error}"))?
                .ok_or_else(|| format!("{what}: username claim expression must return a string"))?;
            if user.name.is_empty() {
                return Err("empty username via CEL expression is not allowed".to_owned());
            }
        }
        if let Some(expression) = &self.groups {
            let groups = texts_of(expression, claims);
            user.groups =
                groups.map_err(|error| format!("error evaluating group claim expression: {error}"))?;
        }
        if let Some(expression) = &self.uid {
            let what = "error evaluating uid claim expression";
            user.uid = text_of(expression, claims)
                .map_err(|error| format!("{what}: {error}"))?
                .ok_or_else(|| format!("{what}: uid claim expression must return a string"))?;
        }
        for (key, expression) in &self.extra {
            let what = "error evaluating extra claim expression";
            let values = texts_of(expression, claims);
            let values = values.map_err(|error| format!("{what}: {}: {error}", expression.source()))?;
            if !values.is_empty() {
                user.extra.insert(key.clone(), values);
            }
        }
        Ok(())
    }

    /// Checks the rules for claims, then those for the user.
    pub(super) fn validate(&self, claims: &Tree, user: &User) -> Result<(), String> {
        check_rules(&self.claim_rules, claims)
            .map_err(|error| format!("error evaluating claim validation expression: {error}"))?;
        if self.user_rules.is_empty() {
            return Ok(());
        }
        check_rules(&self.user_rules, &user_tree(user))
            .map_err(|error| format!("error evaluating user info validation rule: {error}"))
    }
}

fn use_doubles(tree: &mut Tree) {
    match tree {
        Tree::Int(number) => *tree = Tree::Float(*number as f64),
        Tree::List(items) => items.iter_mut().for_each(use_doubles),
        Tree::Map(map) => map.iter_mut().for_each(|(_, value)| use_doubles(value)),
        _ => {}
    }
}

fn user_tree(user: &User) -> Tree {
    let list = |texts: &[String]| Tree::List(texts.iter().map(|text| Tree::from(text.as_str())).collect());
    let mut tree = Tree::default();
    tree.set(&["username"], user.name.as_str());
    tree.set(&["uid"], user.uid.as_str());
    tree.set(&["groups"], list(&user.groups));
    tree.set(&["extra"], setpoint_schema::Map::default());
    for (key, values) in &user.extra {
        tree.set(&["extra", key], list(values));
    }
    tree
}

/// The text of an expression; none if it is something else.
fn text_of(expression: &Expression, claims: &Tree) -> Result<Option<String>, String> {
    let value = expression.evaluate(Value::from_tree(claims))?;
    Ok(value.as_str().map(str::to_owned))
}

/// The texts of an expression: one, a list, or none for null. Empty texts are left out.
fn texts_of(expression: &Expression, claims: &Tree) -> Result<Vec<String>, String> {
    let value = expression.evaluate(Value::from_tree(claims))?;
    let texts = match &value {
        Value::Null => Vec::new(),
        Value::String(_) => vec![value],
        Value::List(_) => value.items(),
        _ => return Err(NO_STRINGS.to_owned()),
    };
    let text = |value: &Value<'_>| {
        value
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| NO_STRINGS.to_owned())
    };
    let texts: Result<Vec<String>, String> = texts.iter().map(text).collect();
    Ok(texts?.into_iter().filter(|text| !text.is_empty()).collect())
}

fn check_rules(rules: &[Rule], variable: &Tree) -> Result<(), String> {
    for rule in rules {
        match rule.expression.evaluate(Value::from_tree(variable))? {
            Value::Bool(true) => {}
            Value::Bool(false) => {
                let (source, message) = (rule.expression.source(), &rule.message);
                return Err(format!("validation expression '{source}' failed: {message}"));
            }
            _ => return Err("validation expression must return a boolean".to_owned()),
        }
    }
    Ok(())
}
