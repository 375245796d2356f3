//! PodSecurity: the Pod Security Standards, by the labels of the namespace.
//!
//! A level is enforced, or only produces warnings; objects with pod templates only produce warnings, since their pods are
//! checked when they are created.

mod baseline;
mod checks;
mod level;
mod restricted;

use setpoint_api::{GroupResource, Key, Status};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::Tree;

use crate::chain::Plugin;
use crate::review;

use level::{Level, Policy, Standard};

/// The resources with a pod template, and its path.
const POD_TEMPLATES: &[(&str, &str, &[&str])] = &[
    ("", "replicationcontrollers", &["spec", "template"]),
    ("", "podtemplates", &["template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template"]),
];
/// Subresources of pods whose writes do not change the pod spec.
const EXEMPT_SUBRESOURCES: &[&str] = &[
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

/// Checks pods against the levels of their namespace.
#[derive(Debug)]
pub(crate) struct PodSecurity;

impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !matches!(review.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        if review::is_resource(review, "", "namespaces") {
            return level::check_labels(review);
        }
        if review::is_resource_or_subresource(review, "", "pods") {
            return check_pod(review);
        }
        let template = POD_TEMPLATES
            .iter()
            .find(|(group, resource, _)| review::is_resource(review, group, resource));
        if let Some((_, _, path)) = template {
            warn_about_template(review, path);
        }
        Ok(())
    }
}

fn policy(review: &Review<'_>) -> Policy {
    let namespaces = GroupResource::new("", "namespaces");
    let found = review.find(&namespaces, &Key::new("", review.namespace));
    found.map_or_else(Policy::default, |namespace| {
        Policy::of(|label| namespace.label(label))
    })
}

fn check_pod(review: &mut Review<'_>) -> Result<(), Status> {
    if review
        .subresource
        .is_some_and(|subresource| EXEMPT_SUBRESOURCES.contains(&subresource))
    {
        return Ok(());
    }
    let policy = policy(review);
    if policy.enforce.level == Level::Privileged && policy.warn.level == Level::Privileged {
        return Ok(());
    }
    let Some(pod) = review.object.as_deref() else {
        return Ok(());
    };
    if review.operation == Operation::Update && !is_significant(review, pod) {
        return Ok(());
    }
    if let Some(violations) = evaluate(&policy.enforce, pod) {
        let why = format!("violates PodSecurity \"{}\": {violations}", policy.enforce);
        return Err(review::forbidden(review, &why));
    }
    if let Some(violations) = evaluate(&policy.warn, pod) {
        let warning = format!("would violate PodSecurity \"{}\": {violations}", policy.warn);
        review.warnings.push(warning);
    }
    Ok(())
}

/// Whether an update changes the pod spec.
fn is_significant(review: &Review<'_>, pod: &Tree) -> bool {
    let null = Tree::Null;
    let spec = |object: &Tree| object.get("spec").cloned().unwrap_or_default();
    let before = review.decode_old();
    !spec(before.as_ref().unwrap_or(&null)).semantic_eq(&spec(pod))
}

fn warn_about_template(review: &mut Review<'_>, path: &[&str]) {
    let policy = policy(review);
    let template = review.object.as_deref().and_then(|object| object.at(path));
    let violations = template.and_then(|template| evaluate(&policy.warn, template));
    if let Some(violations) = violations {
        let warning = format!("would violate PodSecurity \"{}\": {violations}", policy.warn);
        review.warnings.push(warning);
    }
}

/// The violations of a standard by a pod or a pod template; `None` if there are none.
fn evaluate(standard: &Standard, pod: &Tree) -> Option<String> {
    let null = Tree::Null;
    let spec = pod.get("spec").unwrap_or(&null);
    let version = standard.version;
    let found = match standard.level {
        Level::Privileged => Vec::new(),
        Level::Baseline => baseline::violations(pod, spec, version, &[]),
        Level::Restricted => {
            let mut found = baseline::violations(pod, spec, version, restricted::REPLACED);
            found.extend(restricted::violations(spec, version));
            found
        }
    };
    let violations = found.into_iter().map(|violation| violation.to_string());
    let violations: Vec<String> = violations.collect();
    (!violations.is_empty()).then(|| violations.join(", "))
}
