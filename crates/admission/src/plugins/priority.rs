//! Priority: a pod's priority is that of its class, and there is one default class at most.

use std::sync::Arc;

use serde::Deserialize;

use setpoint_api::{GroupResource, Key, Status, Stored};
use setpoint_registry::{Operation, Review};
use setpoint_schema::Tree;

use crate::about;
use crate::chain::Plugin;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";
const SYSTEM: &[&str] = &["system-node-critical", "system-cluster-critical"];
const PREEMPTS: &str = "PreemptLowerPriority";

/// The rule of how important pods are.
#[derive(Debug)]
pub(crate) struct Priority;

/// What a class says.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Class {
    value: i64,
    global_default: bool,
    preemption_policy: Option<String>,
}

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !about::is(review, "", "pods") {
            return Ok(());
        }
        match review.operation {
            Operation::Create => settle(review),
            Operation::Update => {
                keep(review);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !about::is(review, GROUP, CLASSES) {
            return Ok(());
        }
        if review.operation == Operation::Delete {
            if SYSTEM.contains(&review.name) {
                let why = "this is a system priority class and cannot be deleted";
                return Err(about::forbidden(review, why));
            }
            return Ok(());
        }
        check_one_default(review)
    }
}

fn settle(review: &mut Review<'_>) -> Result<(), Status> {
    let pod = review.object.as_deref();
    let asked = pod.and_then(|pod| pod.str_at(&["spec", "priorityClassName"]));
    let (name, value, policy) = match asked.unwrap_or_default() {
        "" => default_class(review),
        name => named_class(review, name)?,
    };
    let given = pod
        .and_then(|pod| pod.at(&["spec", "priority"]))
        .and_then(Tree::as_i64);
    if let Some(given) = given
        && given != value
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(about::forbidden(review, &why));
    }
    let given = pod.and_then(|pod| pod.str_at(&["spec", "preemptionPolicy"]));
    if let Some(given) = given
        && given != policy
    {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(about::forbidden(review, &why));
    }
    if let Some(pod) = review.object.as_deref_mut() {
        let spec = pod.child("spec");
        if !name.is_empty() {
            spec.set(&["priorityClassName"], name);
        }
        spec.set(&["priority"], value);
        spec.set(&["preemptionPolicy"], policy);
    }
    Ok(())
}

fn named_class(review: &Review<'_>, name: &str) -> Result<(String, i64, String), Status> {
    let found = review.find(&GroupResource::new(GROUP, CLASSES), &Key::new("", name));
    match found {
        Some(class) => Ok(told(&class)),
        None => {
            let why = format!("no PriorityClass with name {name} was found");
            Err(about::forbidden(review, &why))
        }
    }
}

/// The class of pods that name none: the least important one, should there be several.
fn default_class(review: &Review<'_>) -> (String, i64, String) {
    let classes = about::all(review, GROUP, CLASSES, "");
    let defaults = classes.iter().filter(|class| read(class).global_default);
    let least = defaults.min_by_key(|class| read(class).value);
    least.map_or_else(|| (String::new(), 0, PREEMPTS.to_owned()), |class| told(class))
}

fn told(class: &Stored) -> (String, i64, String) {
    let view = read(class);
    let policy = view.preemption_policy.as_deref().unwrap_or(PREEMPTS);
    (class.key().name().to_owned(), view.value, policy.to_owned())
}

fn read(class: &Stored) -> Arc<Class> {
    about::view(class)
}

/// Who updates a pod without knowing of its priority leaves it as it is.
fn keep(review: &mut Review<'_>) {
    let Some(old) = review.old_document() else {
        return;
    };
    let Some(pod) = review.object.as_deref_mut() else {
        return;
    };
    for field in ["priority", "preemptionPolicy"] {
        if let Some(before) = old.at(&["spec", field]) {
            pod.child("spec").fill(field, before.clone());
        }
    }
}

fn check_one_default(review: &Review<'_>) -> Result<(), Status> {
    let object = review.object.as_deref();
    if !object.is_some_and(|class| about::flag(class, &["globalDefault"])) {
        return Ok(());
    }
    let classes = about::all(review, GROUP, CLASSES, "");
    let other = classes.iter().find(|class| {
        let same = review.operation == Operation::Update && class.key().name() == review.name;
        read(class).global_default && !same
    });
    match other {
        Some(other) => {
            let why = format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                other.key().name()
            );
            Err(about::forbidden(review, &why))
        }
        None => Ok(()),
    }
}
