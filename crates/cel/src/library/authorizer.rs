//! Authorization checks: `authorizer.group('apps').resource('deployments').check('create').allowed()`.

use std::fmt::Debug;
use std::sync::Arc;

use regex::Regex;

use super::{Builtin, no_such_overload};
use crate::opaque::Opaque;
use crate::value::Value;

/// Decides authorization checks of expressions. The caller of an evaluation passes it as a variable.
pub trait Authorizer: Debug + Send + Sync {
    fn authorize(&self, check: &Check) -> Decision;
}

/// A check that an expression builds step by step.
#[derive(Debug, Clone)]
pub struct Check {
    authorizer: Arc<dyn Authorizer>,
    /// The service account to check, as namespace and name, instead of the user of the request.
    pub service_account: Option<(String, String)>,
    pub target: CheckTarget,
    /// The verb, once it is known.
    pub verb: String,
}

/// What a check is about.
#[derive(Debug, Clone)]
pub enum CheckTarget {
    /// Nothing yet.
    Authorizer,
    Path(String),
    Group(String),
    Resource(Box<ResourceCheck>),
}

/// A check of a resource.
#[derive(Debug, Clone, Default)]
pub struct ResourceCheck {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: Option<String>,
    pub label_selector: Option<String>,
}

/// The outcome of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

impl Check {
    /// The value of the variable `authorizer`.
    pub fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self {
            authorizer,
            service_account: None,
            target: CheckTarget::Authorizer,
            verb: String::new(),
        }
    }

    /// The value of the variable `authorizer.requestResource`.
    pub fn of_resource(authorizer: Arc<dyn Authorizer>, resource: ResourceCheck) -> Self {
        Self {
            target: CheckTarget::Resource(Box::new(resource)),
            ..Self::new(authorizer)
        }
    }

    /// The check as a variable of an expression.
    pub fn into_value(self) -> Value<'static> {
        Value::Opaque(Opaque::Check(Arc::new(self)))
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self.target {
            CheckTarget::Authorizer => "kubernetes.authorization.Authorizer",
            CheckTarget::Path(_) => "kubernetes.authorization.PathCheck",
            CheckTarget::Group(_) => "kubernetes.authorization.GroupCheck",
            CheckTarget::Resource(_) => "kubernetes.authorization.ResourceCheck",
        }
    }
}

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[
    ("path", |args, _| {
        build(args, |check, text| {
            check.target = CheckTarget::Path(text);
        })
    }),
    ("group", |args, _| {
        build(args, |check, text| {
            check.target = CheckTarget::Group(text);
        })
    }),
    ("serviceAccount", service_account),
    ("resource", |args, _| {
        build(args, |check, text| {
            if let CheckTarget::Group(group) = &check.target {
                let resource = ResourceCheck {
                    group: group.clone(),
                    resource: text,
                    ..ResourceCheck::default()
                };
                check.target = CheckTarget::Resource(Box::new(resource));
            }
        })
    }),
    ("subresource", |args, _| {
        of_resource(args, |resource, text| resource.subresource = text)
    }),
    ("namespace", |args, _| {
        of_resource(args, |resource, text| resource.namespace = text)
    }),
    ("name", |args, _| {
        of_resource(args, |resource, text| resource.name = text)
    }),
    ("fieldSelector", |args, _| {
        of_resource(args, |resource, text| resource.field_selector = Some(text))
    }),
    ("labelSelector", |args, _| {
        of_resource(args, |resource, text| resource.label_selector = Some(text))
    }),
    ("check", check),
    ("allowed", |args, _| {
        decision(args, |decision| Value::Bool(decision.allowed))
    }),
    ("reason", |args, _| {
        decision(args, |decision| Value::string(decision.reason.as_str()))
    }),
    ("errored", |args, _| {
        decision(args, |decision| Value::Bool(decision.error.is_some()))
    }),
    ("error", |args, _| {
        decision(args, |decision| {
            Value::string(decision.error.as_deref().unwrap_or_default())
        })
    }),
];

type Outcome<'a> = Result<Value<'a>, String>;

fn build<'a>(args: &[Value<'a>], change: impl FnOnce(&mut Check, String)) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Check(check)), Value::String(text)] => {
            let mut check = (**check).clone();
            change(&mut check, text.as_str().to_owned());
            Ok(check.into_value())
        }
        _ => no_such_overload(),
    }
}

fn of_resource<'a>(args: &[Value<'a>], change: impl FnOnce(&mut ResourceCheck, String)) -> Outcome<'a> {
    build(args, |check, text| {
        if let CheckTarget::Resource(resource) = &mut check.target {
            change(resource, text);
        }
    })
}

fn service_account<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [
            Value::Opaque(Opaque::Check(check)),
            Value::String(namespace),
            Value::String(name),
        ] => {
            let account = (namespace.as_str().to_owned(), name.as_str().to_owned());
            let mut check = (**check).clone();
            check.service_account = Some(account);
            Ok(check.into_value())
        }
        _ => no_such_overload(),
    }
}

fn check<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Check(check)), Value::String(verb)] => {
            let mut check = (**check).clone();
            check.verb = verb.as_str().to_owned();
            let decision = check.authorizer.authorize(&check);
            Ok(Value::Opaque(Opaque::Decision(Arc::new(decision))))
        }
        _ => no_such_overload(),
    }
}

fn decision<'a>(args: &[Value<'a>], run: impl FnOnce(&Decision) -> Value<'a>) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Decision(decision))] => Ok(run(decision)),
        _ => no_such_overload(),
    }
}
