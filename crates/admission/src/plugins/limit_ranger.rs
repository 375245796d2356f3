//! LimitRanger: bounds on the requests and limits of a pod, container or claim in a namespace, and their defaults.

use setpoint_api::{GroupResource, Quantity, Status};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};
use setpoint_values::ResourceList;

use crate::chain::Plugin;
use crate::resource_list;
use crate::review;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets the defaults and checks the bounds of a namespace's LimitRanges.
#[derive(Debug)]
pub(crate) struct LimitRanger;

impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !review::creates_pod(review) {
            return Ok(());
        }
        for range in ranges(review) {
            if let Some(pod) = review.object.as_deref_mut() {
                set_defaults(pod, &range);
            }
        }
        Ok(())
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let resized = review.operation == Operation::Update
            && review.subresource == Some("resize")
            && review::is_resource_or_subresource(review, "", "pods");
        let pod = review::creates_pod(review) || resized;
        let claim = review.operation != Operation::Delete
            && review::is_resource(review, "", "persistentvolumeclaims");
        if !pod && !claim {
            return Ok(());
        }
        for range in ranges(review) {
            let Some(spec) = review.object.as_deref().and_then(|object| object.get("spec")) else {
                return Ok(());
            };
            let errors = if pod {
                check_pod(spec, &range)
            } else {
                check_claim(spec, &range)
            };
            if !errors.is_empty() {
                return Err(review::forbidden(review, &listed(&errors)));
            }
        }
        Ok(())
    }
}

fn ranges(review: &Review<'_>) -> Vec<Tree> {
    let resource = GroupResource::new("", "limitranges");
    let ranges = review::list(review, "", "limitranges", review.namespace);
    ranges
        .iter()
        .filter_map(|range| review.decode(&resource, range))
        .collect()
}

/// The limits of a LimitRange for this type.
fn limits<'a>(range: &'a Tree, limit_type: &'a str) -> impl Iterator<Item = &'a Tree> {
    let limits = range
        .get("spec")
        .map(|spec| spec.items(fields::LIMITS))
        .unwrap_or_default();
    limits
        .iter()
        .filter(move |limit| limit.str_at(&[fields::TYPE]) == Some(limit_type))
}

/// A single reason, or several in brackets.
fn listed(reasons: &[String]) -> String {
    match reasons {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

// === defaults ===

fn set_defaults(pod: &mut Tree, range: &Tree) {
    let (mut requests, mut default_limits) = (ResourceList::new(), ResourceList::new());
    for limit in limits(range, "Container") {
        requests.extend(resource_list::parse(limit.get("defaultRequest")));
        default_limits.extend(resource_list::parse(limit.get("default")));
    }
    let mut changes = Vec::new();
    let spec = pod.child(fields::SPEC);
    for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
        for container in spec.items_mut(list) {
            let name = container.str_at(&[fields::NAME]).unwrap_or_default().to_owned();
            for (amounts, field, what) in [
                (&default_limits, "limits", "limit"),
                (&requests, "requests", "request"),
            ] {
                let set = set_missing(container, field, amounts);
                if !set.is_empty() {
                    changes.push((what, format!("{} {what} for {word} {name}", set.join(", "))));
                }
            }
            // The message lists requests before limits.
            let own = changes.len();
            if own >= 2 && changes[own - 1].0 == "request" && changes[own - 2].0 == "limit" {
                changes.swap(own - 1, own - 2);
            }
        }
    }
    if !changes.is_empty() {
        let changes: Vec<String> = changes.into_iter().map(|(_, text)| text).collect();
        let text = format!("LimitRanger plugin set: {}", changes.join("; "));
        pod.child(fields::METADATA)
            .child(fields::ANNOTATIONS)
            .set(&[ANNOTATION], text);
    }
}

/// Sets the missing resources and returns their names.
fn set_missing(container: &mut Tree, field: &str, amounts: &ResourceList) -> Vec<String> {
    let missing: Vec<(&String, &Quantity)> = amounts
        .iter()
        .filter(|(name, _)| !review::has(container, &["resources", field, name]))
        .collect();
    for (name, amount) in &missing {
        container.set(&[fields::RESOURCES, field, name], amount.to_string());
    }
    if !missing.is_empty()
        && let Some(Tree::Map(map)) = container.at_mut(&[fields::RESOURCES, field])
    {
        map.pairs_mut().sort_by(|(left, _), (right, _)| left.cmp(right));
    }
    missing.into_iter().map(|(name, _)| name.clone()).collect()
}

// === bounds ===

fn check_pod(spec: &Tree, range: &Tree) -> Vec<String> {
    let mut errors = Vec::new();
    let limits = range
        .get("spec")
        .map(|spec| spec.items(fields::LIMITS))
        .unwrap_or_default();
    for limit in limits {
        match limit.str_at(&[fields::TYPE]).unwrap_or_default() {
            "Container" => {
                for list in ["containers", "initContainers"] {
                    for container in spec.items(list) {
                        let requests =
                            resource_list::parse(container.at(&[fields::RESOURCES, fields::REQUESTS]));
                        let own_limits =
                            resource_list::parse(container.at(&[fields::RESOURCES, fields::LIMITS]));
                        check(limit, "Container", &requests, &own_limits, &mut errors);
                    }
                }
            }
            "Pod" => {
                let requests = resource_list::of_pod(spec, "requests");
                let own_limits = resource_list::of_pod(spec, "limits");
                check(limit, "Pod", &requests, &own_limits, &mut errors);
            }
            _ => {}
        }
    }
    errors
}

fn check_claim(spec: &Tree, range: &Tree) -> Vec<String> {
    let limit_type = "PersistentVolumeClaim";
    let requests = resource_list::parse(spec.at(&[fields::RESOURCES, fields::REQUESTS]));
    let mut errors = Vec::new();
    for limit in limits(range, limit_type) {
        for (name, min) in resource_list::parse(limit.get("min")) {
            errors.extend(check_min(limit_type, (&name, min), requests.get(&name), None));
        }
        for (name, max) in resource_list::parse(limit.get("max")) {
            let bound = format!("maximum {name} usage per {limit_type} is {max}");
            match requests.get(&name) {
                None => errors.push(format!("{bound}.  No request is specified")),
                Some(request) if *request > max => errors.push(format!("{bound}, but request is {request}")),
                Some(_) => {}
            }
        }
    }
    errors
}

fn check(
    limit: &Tree,
    limit_type: &str,
    requests: &ResourceList,
    limits: &ResourceList,
    errors: &mut Vec<String>,
) {
    for (name, min) in resource_list::parse(limit.get("min")) {
        errors.extend(check_min(
            limit_type,
            (&name, min),
            requests.get(&name),
            limits.get(&name),
        ));
    }
    for (name, bound) in resource_list::parse(limit.get("max")) {
        errors.extend(check_max(
            limit_type,
            (&name, bound),
            requests.get(&name),
            limits.get(&name),
        ));
    }
    for (name, ratio) in resource_list::parse(limit.get("maxLimitRequestRatio")) {
        errors.extend(check_ratio(
            limit_type,
            (&name, ratio),
            requests.get(&name),
            limits.get(&name),
        ));
    }
}

type OptionalQuantity<'a> = Option<&'a Quantity>;

fn check_min(
    limit_type: &str,
    (name, min): (&str, Quantity),
    request: OptionalQuantity<'_>,
    limit: OptionalQuantity<'_>,
) -> Option<String> {
    let bound = format!("minimum {name} usage per {limit_type} is {min}");
    match (request, limit) {
        (None, _) => Some(format!("{bound}.  No request is specified")),
        (Some(request), _) if *request < min => Some(format!("{bound}, but request is {request}")),
        (_, Some(limit)) if *limit < min => Some(format!("{bound}, but limit is {limit}")),
        _ => None,
    }
}

fn check_max(
    limit_type: &str,
    (name, max): (&str, Quantity),
    request: OptionalQuantity<'_>,
    limit: OptionalQuantity<'_>,
) -> Option<String> {
    let bound = format!("maximum {name} usage per {limit_type} is {max}");
    match (request, limit) {
        (_, None) => Some(format!("{bound}.  No limit is specified")),
        (_, Some(limit)) if *limit > max => Some(format!("{bound}, but limit is {limit}")),
        (Some(request), _) if *request > max => Some(format!("{bound}, but request is {request}")),
        _ => None,
    }
}

#[allow(clippy::cast_precision_loss, reason = "a ratio is printed with six digits")]
fn check_ratio(
    limit_type: &str,
    (name, max): (&str, Quantity),
    request: OptionalQuantity<'_>,
    limit: OptionalQuantity<'_>,
) -> Option<String> {
    let bound = format!("{name} max limit to request ratio per {limit_type} is {max}");
    let some = |amount: OptionalQuantity<'_>| amount.filter(|amount| !amount.is_zero()).copied();
    let Some(request) = some(request) else {
        return Some(format!("{bound}, but no request is specified or request is 0"));
    };
    let Some(limit) = some(limit) else {
        return Some(format!("{bound}, but no limit is specified or limit is 0"));
    };
    let ratio = limit.milli_value() as f64 / request.milli_value() as f64;
    (ratio * 1000.0 > max.milli_value() as f64).then(|| format!("{bound}, but provided ratio is {ratio:.6}"))
}
