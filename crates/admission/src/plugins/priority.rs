//! Priority: a pod's priority is that of its PriorityClass, and there is at most one default class.

use std::sync::Arc;

use serde::Deserialize;

use setpoint_api::{GroupResource, Key, Status, Stored};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};

use crate::chain::Plugin;
use crate::review;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";
const SYSTEM_CLASSES: &[&str] = &["system-node-critical", "system-cluster-critical"];
const PREEMPT_LOWER_PRIORITY: &str = "PreemptLowerPriority";

/// Sets the priority of pods, and checks PriorityClasses.
#[derive(Debug)]
pub(crate) struct Priority;

/// The view of a PriorityClass.
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
        if !review::is_resource(review, "", "pods") {
            return Ok(());
        }
        match review.operation {
            Operation::Create => set_priority(review),
            Operation::Update => {
                keep_priority(review);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !review::is_resource(review, GROUP, CLASSES) {
            return Ok(());
        }
        if review.operation == Operation::Delete {
            if SYSTEM_CLASSES.contains(&review.name) {
                let why = "this is a system priority class and cannot be deleted";
                return Err(review::forbidden(review, why));
            }
            return Ok(());
        }
        check_one_default(review)
    }
}

fn set_priority(review: &mut Review<'_>) -> Result<(), Status> {
    let pod = review.object.as_deref();
    let class_name = pod.and_then(|pod| pod.str_at(&[fields::SPEC, fields::PRIORITY_CLASS_NAME]));
    let (name, value, policy) = match class_name.unwrap_or_default() {
        "" => default_class(review),
        name => named_class(review, name)?,
    };
    let provided = pod
        .and_then(|pod| pod.at(&[fields::SPEC, fields::PRIORITY]))
        .and_then(Tree::as_i64);
    if let Some(provided) = provided
        && provided != value
    {
        let why = format!(
            "the integer value of priority ({provided}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(review::forbidden(review, &why));
    }
    let provided = pod.and_then(|pod| pod.str_at(&[fields::SPEC, fields::PREEMPTION_POLICY]));
    if let Some(provided) = provided
        && provided != policy
    {
        let why = format!(
            "the string value of PreemptionPolicy ({provided}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(review::forbidden(review, &why));
    }
    if let Some(pod) = review.object.as_deref_mut() {
        let spec = pod.child(fields::SPEC);
        if !name.is_empty() {
            spec.set(&[fields::PRIORITY_CLASS_NAME], name);
        }
        spec.set(&[fields::PRIORITY], value);
        spec.set(&[fields::PREEMPTION_POLICY], policy);
    }
    Ok(())
}

fn named_class(review: &Review<'_>, name: &str) -> Result<(String, i64, String), Status> {
    let found = review.find(&GroupResource::new(GROUP, CLASSES), &Key::new("", name));
    match found {
        Some(class) => Ok(class_values(&class)),
        None => {
            let why = format!("no PriorityClass with name {name} was found");
            Err(review::forbidden(review, &why))
        }
    }
}

/// The class of pods without one: the default class; of several, the one of lowest value.
fn default_class(review: &Review<'_>) -> (String, i64, String) {
    let classes = review::list(review, GROUP, CLASSES, "");
    let defaults = classes.iter().filter(|class| class_view(class).global_default);
    let lowest = defaults.min_by_key(|class| class_view(class).value);
    lowest.map_or_else(
        || (String::new(), 0, PREEMPT_LOWER_PRIORITY.to_owned()),
        |class| class_values(class),
    )
}

fn class_values(class: &Stored) -> (String, i64, String) {
    let view = class_view(class);
    let policy = view
        .preemption_policy
        .as_deref()
        .unwrap_or(PREEMPT_LOWER_PRIORITY);
    (class.key().name().to_owned(), view.value, policy.to_owned())
}

fn class_view(class: &Stored) -> Arc<Class> {
    review::view(class)
}

/// An update that omits the priority keeps it.
fn keep_priority(review: &mut Review<'_>) {
    let Some(old) = review.decode_old() else {
        return;
    };
    let Some(pod) = review.object.as_deref_mut() else {
        return;
    };
    for field in ["priority", "preemptionPolicy"] {
        if let Some(before) = old.at(&[fields::SPEC, field]) {
            pod.child(fields::SPEC).set_default(field, before.clone());
        }
    }
}

fn check_one_default(review: &Review<'_>) -> Result<(), Status> {
    let object = review.object.as_deref();
    if !object.is_some_and(|class| review::bool_at(class, &["globalDefault"])) {
        return Ok(());
    }
    let classes = review::list(review, GROUP, CLASSES, "");
    let other = classes.iter().find(|class| {
        let same = review.operation == Operation::Update && class.key().name() == review.name;
        class_view(class).global_default && !same
    });
    match other {
        Some(other) => {
            let why = format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                other.key().name()
            );
            Err(review::forbidden(review, &why))
        }
        None => Ok(()),
    }
}
