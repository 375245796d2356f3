//! LimitRanger: what one pod, container or claim in a namespace may ask for, and what it gets if it does not ask.

use setpoint_api::{GroupResource, Quantity, Status};
use setpoint_registry::{Operation, Review};
use setpoint_schema::Tree;

use crate::about;
use crate::amounts::{self, Amounts};
use crate::chain::Plugin;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The rule of the size of single things.
#[derive(Debug)]
pub(crate) struct LimitRanger;

impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !about::creates_pod(review) {
            return Ok(());
        }
        for range in ranges(review) {
            if let Some(pod) = review.object.as_deref_mut() {
                fill(pod, &range);
            }
        }
        Ok(())
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let resized = review.operation == Operation::Update
            && review.subresource == Some("resize")
            && about::is_any(review, "", "pods");
        let pod = about::creates_pod(review) || resized;
        let claim = review.operation != Operation::Delete && about::is(review, "", "persistentvolumeclaims");
        if !pod && !claim {
            return Ok(());
        }
        for range in ranges(review) {
            let Some(spec) = review.object.as_deref().and_then(|object| object.get("spec")) else {
                return Ok(());
            };
            let wrong = if pod {
                check_pod(spec, &range)
            } else {
                check_claim(spec, &range)
            };
            if !wrong.is_empty() {
                return Err(about::forbidden(review, &listed(&wrong)));
            }
        }
        Ok(())
    }
}

fn ranges(review: &Review<'_>) -> Vec<Tree> {
    let resource = GroupResource::new("", "limitranges");
    let ranges = about::all(review, "", "limitranges", review.namespace);
    ranges
        .iter()
        .filter_map(|range| review.document(&resource, range))
        .collect()
}

/// The limits of a range that are about this sort of thing.
fn limits<'a>(range: &'a Tree, sort: &'a str) -> impl Iterator<Item = &'a Tree> {
    let limits = range
        .get("spec")
        .map(|spec| spec.items("limits"))
        .unwrap_or_default();
    limits
        .iter()
        .filter(move |limit| limit.str_at(&["type"]) == Some(sort))
}

/// One reason by itself, or several in brackets.
fn listed(reasons: &[String]) -> String {
    match reasons {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

// === what is not asked for ===

fn fill(pod: &mut Tree, range: &Tree) {
    let (mut requests, mut most) = (Amounts::new(), Amounts::new());
    for limit in limits(range, "Container") {
        requests.extend(amounts::of(limit.get("defaultRequest")));
        most.extend(amounts::of(limit.get("default")));
    }
    let mut told = Vec::new();
    let spec = pod.child("spec");
    for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
        for container in spec.items_mut(list) {
            let name = container.str_at(&["name"]).unwrap_or_default().to_owned();
            for (amounts, field, what) in [(&most, "limits", "limit"), (&requests, "requests", "request")] {
                let set = fill_amounts(container, field, amounts);
                if !set.is_empty() {
                    told.push((what, format!("{} {what} for {word} {name}", set.join(", "))));
                }
            }
            // What was asked for is told before what it may have.
            let own = told.len();
            if own >= 2 && told[own - 1].0 == "request" && told[own - 2].0 == "limit" {
                told.swap(own - 1, own - 2);
            }
        }
    }
    if !told.is_empty() {
        let told: Vec<String> = told.into_iter().map(|(_, text)| text).collect();
        let text = format!("LimitRanger plugin set: {}", told.join("; "));
        pod.child("metadata")
            .child("annotations")
            .set(&[ANNOTATION], text);
    }
}

/// The names of the amounts that were missing.
fn fill_amounts(container: &mut Tree, field: &str, amounts: &Amounts) -> Vec<String> {
    let missing: Vec<(&String, &Quantity)> = amounts
        .iter()
        .filter(|(name, _)| !about::has(container, &["resources", field, name]))
        .collect();
    for (name, amount) in &missing {
        container.set(&["resources", field, name], amount.to_string());
    }
    if !missing.is_empty()
        && let Some(Tree::Map(map)) = container.at_mut(&["resources", field])
    {
        map.pairs_mut().sort_by(|(left, _), (right, _)| left.cmp(right));
    }
    missing.into_iter().map(|(name, _)| name.clone()).collect()
}

// === what is asked for ===

fn check_pod(spec: &Tree, range: &Tree) -> Vec<String> {
    let mut wrong = Vec::new();
    let limits = range
        .get("spec")
        .map(|spec| spec.items("limits"))
        .unwrap_or_default();
    for limit in limits {
        match limit.str_at(&["type"]).unwrap_or_default() {
            "Container" => {
                for list in ["containers", "initContainers"] {
                    for container in spec.items(list) {
                        let requests = amounts::of(container.at(&["resources", "requests"]));
                        let most = amounts::of(container.at(&["resources", "limits"]));
                        check(limit, "Container", &requests, &most, &mut wrong);
                    }
                }
            }
            "Pod" => {
                let requests = amounts::of_pod(spec, "requests");
                let most = amounts::of_pod(spec, "limits");
                check(limit, "Pod", &requests, &most, &mut wrong);
            }
            _ => {}
        }
    }
    wrong
}

fn check_claim(spec: &Tree, range: &Tree) -> Vec<String> {
    let sort = "PersistentVolumeClaim";
    let requests = amounts::of(spec.at(&["resources", "requests"]));
    let mut wrong = Vec::new();
    for limit in limits(range, sort) {
        for (name, least) in amounts::of(limit.get("min")) {
            wrong.extend(check_least(sort, (&name, least), requests.get(&name), None));
        }
        for (name, most) in amounts::of(limit.get("max")) {
            let bound = format!("maximum {name} usage per {sort} is {most}");
            match requests.get(&name) {
                None => wrong.push(format!("{bound}.  No request is specified")),
                Some(asked) if *asked > most => wrong.push(format!("{bound}, but request is {asked}")),
                Some(_) => {}
            }
        }
    }
    wrong
}

fn check(limit: &Tree, sort: &str, requests: &Amounts, most: &Amounts, wrong: &mut Vec<String>) {
    for (name, least) in amounts::of(limit.get("min")) {
        wrong.extend(check_least(
            sort,
            (&name, least),
            requests.get(&name),
            most.get(&name),
        ));
    }
    for (name, bound) in amounts::of(limit.get("max")) {
        wrong.extend(check_most(
            sort,
            (&name, bound),
            requests.get(&name),
            most.get(&name),
        ));
    }
    for (name, ratio) in amounts::of(limit.get("maxLimitRequestRatio")) {
        wrong.extend(check_ratio(
            sort,
            (&name, ratio),
            requests.get(&name),
            most.get(&name),
        ));
    }
}

type Asked<'a> = Option<&'a Quantity>;

fn check_least(
    sort: &str,
    (name, least): (&str, Quantity),
    asked: Asked<'_>,
    limit: Asked<'_>,
) -> Option<String> {
    let bound = format!("minimum {name} usage per {sort} is {least}");
    match (asked, limit) {
        (None, _) => Some(format!("{bound}.  No request is specified")),
        (Some(asked), _) if *asked < least => Some(format!("{bound}, but request is {asked}")),
        (_, Some(limit)) if *limit < least => Some(format!("{bound}, but limit is {limit}")),
        _ => None,
    }
}

fn check_most(
    sort: &str,
    (name, most): (&str, Quantity),
    asked: Asked<'_>,
    limit: Asked<'_>,
) -> Option<String> {
    let bound = format!("maximum {name} usage per {sort} is {most}");
    match (asked, limit) {
        (_, None) => Some(format!("{bound}.  No limit is specified")),
        (_, Some(limit)) if *limit > most => Some(format!("{bound}, but limit is {limit}")),
        (Some(asked), _) if *asked > most => Some(format!("{bound}, but request is {asked}")),
        _ => None,
    }
}

#[allow(clippy::cast_precision_loss, reason = "a ratio is shown in six digits")]
fn check_ratio(
    sort: &str,
    (name, most): (&str, Quantity),
    asked: Asked<'_>,
    limit: Asked<'_>,
) -> Option<String> {
    let bound = format!("{name} max limit to request ratio per {sort} is {most}");
    let some = |amount: Asked<'_>| amount.filter(|amount| !amount.is_zero()).copied();
    let Some(asked) = some(asked) else {
        return Some(format!("{bound}, but no request is specified or request is 0"));
    };
    let Some(limit) = some(limit) else {
        return Some(format!("{bound}, but no limit is specified or limit is 0"));
    };
    let ratio = limit.milli_value() as f64 / asked.milli_value() as f64;
    (ratio * 1000.0 > most.milli_value() as f64).then(|| format!("{bound}, but provided ratio is {ratio:.6}"))
}
