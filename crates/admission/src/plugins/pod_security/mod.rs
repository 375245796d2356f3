//! PodSecurity: what pods of a namespace may do to their node, by levels that the namespace's labels name.
//!
//! A level is enforced, or only warned of; what makes pods is only ever warned of, since the pods themselves are looked
//! at when they come.

mod baseline;
mod checks;
mod level;
mod restricted;

use setpoint_api::{GroupResource, Key, Status};
use setpoint_registry::{Operation, Review};
use setpoint_schema::Tree;

use crate::about;
use crate::chain::Plugin;

use level::{Level, Policy, Standard};

/// What makes pods, and where in it they are described.
const MAKERS: &[(&str, &str, &[&str])] = &[
    ("", "replicationcontrollers", &["spec", "template"]),
    ("", "podtemplates", &["template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template"]),
];
/// Parts of a pod whose writes change nothing that matters here.
const HARMLESS: &[&str] = &[
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

/// The rule of what pods may do.
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
        if about::is(review, "", "namespaces") {
            return level::check_labels(review);
        }
        if about::is_any(review, "", "pods") {
            return check_pod(review);
        }
        let maker = MAKERS
            .iter()
            .find(|(group, resource, _)| about::is(review, group, resource));
        if let Some((_, _, path)) = maker {
            warn_of_template(review, path);
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
    if review.subresource.is_some_and(|part| HARMLESS.contains(&part)) {
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
        return Err(about::forbidden(review, &why));
    }
    if let Some(violations) = evaluate(&policy.warn, pod) {
        let warning = format!("would violate PodSecurity \"{}\": {violations}", policy.warn);
        review.warnings.push(warning);
    }
    Ok(())
}

/// Whether an update changes what the pod runs.
fn is_significant(review: &Review<'_>, pod: &Tree) -> bool {
    let null = Tree::Null;
    let spec = |object: &Tree| object.get("spec").cloned().unwrap_or_default();
    let before = review.old_document();
    !spec(before.as_ref().unwrap_or(&null)).means_same(&spec(pod))
}

fn warn_of_template(review: &mut Review<'_>, path: &[&str]) {
    let policy = policy(review);
    let template = review.object.as_deref().and_then(|object| object.at(path));
    let violations = template.and_then(|template| evaluate(&policy.warn, template));
    if let Some(violations) = violations {
        let warning = format!("would violate PodSecurity \"{}\": {violations}", policy.warn);
        review.warnings.push(warning);
    }
}

/// What a pod, or the template of one, does that the standard does not allow; none if it keeps to it.
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
    let told = found.into_iter().map(|violation| violation.to_string());
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join(", "))
}
