//! ResourceQuota: how much there may be of everything in a namespace, counted as it is written.
//!
//! What is used is written together with the object, so that two writes at once cannot both take the last of it.

mod scopes;
mod usage;

use std::sync::Arc;

use setpoint_api::{GroupResource, Key, Quantity, Status, Stored};
use setpoint_registry::{Companion, Operation, Review};
use setpoint_schema::Tree;

use crate::about;
use crate::amounts::{self, Amounts};
use crate::chain::Plugin;

use usage::Sort;

/// The rule of how much there may be.
#[derive(Debug)]
pub(crate) struct ResourceQuota;

/// A quota that is about the object.
#[derive(Debug)]
struct Quota {
    stored: Arc<Stored>,
    object: Tree,
    hard: Amounts,
    used: Amounts,
}

impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if review.namespace.is_empty() {
            return Ok(());
        }
        let sort = Sort::of(review);
        if !sort.counts(review) {
            return Ok(());
        }
        let quotas = quotas(review);
        if quotas.is_empty() {
            return Ok(());
        }
        let delta = delta(review, sort);
        for mut quota in quotas {
            if charge(review, sort, &mut quota, &delta)? && !review.dry_run {
                review.companions.push(Companion::Update {
                    resource: resource(),
                    old: quota.stored,
                    object: quota.object,
                });
            }
        }
        Ok(())
    }
}

fn resource() -> GroupResource {
    GroupResource::new("", "resourcequotas")
}

/// The quotas of the namespace, each as fresh as the store has it.
fn quotas(review: &Review<'_>) -> Vec<Quota> {
    let known = about::all(review, "", "resourcequotas", review.namespace);
    let fresh = known.iter().filter_map(|quota| {
        let stored = review.find(&resource(), &Key::new(review.namespace, quota.key().name()))?;
        let object = review.document(&resource(), &stored)?;
        Some(Quota {
            hard: amounts::of(object.at(&["status", "hard"])),
            used: amounts::of(object.at(&["status", "used"])),
            stored,
            object,
        })
    });
    fresh.collect()
}

/// What the write adds to what is used.
fn delta(review: &Review<'_>, sort: Sort) -> Amounts {
    let Some(object) = review.object.as_deref() else {
        return Amounts::new();
    };
    let mut delta = usage::of(review, sort, object);
    if review.operation == Operation::Update {
        let before = review.old_document().map(|old| usage::of(review, sort, &old));
        for (name, amount) in before.unwrap_or_default() {
            let after = delta.get(&name).copied().unwrap_or_default();
            delta.insert(
                name,
                if after > amount {
                    after - amount
                } else {
                    Quantity::ZERO
                },
            );
        }
    }
    delta.retain(|_, amount| !amount.is_zero());
    delta
}

/// Charges a quota, if it is about the object. Whether it changed.
fn charge(review: &Review<'_>, sort: Sort, quota: &mut Quota, delta: &Amounts) -> Result<bool, Status> {
    let Some(object) = review.object.as_deref() else {
        return Ok(false);
    };
    let name = quota.stored.key().name();
    let mut restricted: Vec<&String> = quota.hard.keys().collect();
    restricted.retain(|hard| usage::concerns(review, sort, hard));
    if restricted.is_empty() || !scopes::match_all(&quota.object, sort, object) {
        return Ok(false);
    }
    if sort == Sort::Pod
        && let Err(why) = usage::require(object, &restricted)
    {
        return Err(about::forbidden(review, &format!("failed quota: {name}: {why}")));
    }
    let unknown = restricted.iter().any(|hard| !quota.used.contains_key(*hard));
    if unknown {
        let names: Vec<&str> = restricted.iter().map(|hard| hard.as_str()).collect();
        let why = format!("status unknown for quota: {name}, resources: {}", names.join(","));
        return Err(about::forbidden(review, &why));
    }
    let mut requested = delta.clone();
    requested.retain(|own, _| quota.hard.contains_key(own));
    if requested.is_empty() {
        return Ok(false);
    }
    let mut used = quota.used.clone();
    amounts::add(&mut used, &requested);
    let exceeded = |own: &String| used.get(own) > quota.hard.get(own);
    if requested.keys().any(exceeded) {
        let only = |amounts: &Amounts| {
            let mut amounts = amounts.clone();
            amounts.retain(|own, _| requested.contains_key(own) && exceeded(own));
            amounts::print(&amounts)
        };
        let why = format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            only(&requested),
            only(&quota.used),
            only(&quota.hard)
        );
        return Err(about::forbidden(review, &why));
    }
    for (own, amount) in used {
        quota.object.set(&["status", "used", &own], amount.to_string());
    }
    Ok(true)
}
