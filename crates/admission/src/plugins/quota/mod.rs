//! ResourceQuota: limits on the resources of a namespace, charged on each write.
//!
//! The quota's usage is written in the same transaction as the object, so that two concurrent writes cannot exceed it.

mod scopes;
mod usage;

use std::sync::Arc;

use setpoint_api::{GroupResource, Key, Quantity, Status, Stored};
use setpoint_registry_api::{Operation, Review, SideWrite};
use setpoint_schema::Tree;

use crate::chain::Plugin;
use crate::resource_list::{self, ResourceList};
use crate::review;

use usage::QuotaKind;

/// Charges and checks the quotas of a namespace.
#[derive(Debug)]
pub(crate) struct ResourceQuota;

/// A quota of the namespace.
#[derive(Debug)]
struct Quota {
    stored: Arc<Stored>,
    object: Tree,
    hard: ResourceList,
    used: ResourceList,
}

impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if review.namespace.is_empty() {
            return Ok(());
        }
        let kind = QuotaKind::of(review);
        if !kind.counts(review) {
            return Ok(());
        }
        let quotas = quotas(review);
        if quotas.is_empty() {
            return Ok(());
        }
        let delta = delta(review, kind);
        for mut quota in quotas {
            if charge(review, kind, &mut quota, &delta)? && !review.dry_run {
                review.side_writes.push(SideWrite::Update {
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

/// The quotas of the namespace, each as the store has it now.
fn quotas(review: &Review<'_>) -> Vec<Quota> {
    let known = review::list(review, "", "resourcequotas", review.namespace);
    let fresh = known.iter().filter_map(|quota| {
        let stored = review.find(&resource(), &Key::new(review.namespace, quota.key().name()))?;
        let object = review.decode(&resource(), &stored)?;
        Some(Quota {
            hard: resource_list::parse(object.at(&["status", "hard"])),
            used: resource_list::parse(object.at(&["status", "used"])),
            stored,
            object,
        })
    });
    fresh.collect()
}

/// What the write adds to the usage.
fn delta(review: &Review<'_>, kind: QuotaKind) -> ResourceList {
    let Some(object) = review.object.as_deref() else {
        return ResourceList::new();
    };
    let mut delta = usage::of(review, kind, object);
    if review.operation == Operation::Update {
        let before = review.decode_old().map(|old| usage::of(review, kind, &old));
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

/// Charges a quota, if it matches the object. Returns whether the usage changed.
fn charge(
    review: &Review<'_>,
    kind: QuotaKind,
    quota: &mut Quota,
    delta: &ResourceList,
) -> Result<bool, Status> {
    let Some(object) = review.object.as_deref() else {
        return Ok(false);
    };
    let name = quota.stored.key().name();
    let mut restricted: Vec<&String> = quota.hard.keys().collect();
    restricted.retain(|hard| usage::matches_resource(review, kind, hard));
    if restricted.is_empty() || !scopes::match_all(&quota.object, kind, object) {
        return Ok(false);
    }
    if kind == QuotaKind::Pod
        && let Err(why) = usage::require(object, &restricted)
    {
        return Err(review::forbidden(review, &format!("failed quota: {name}: {why}")));
    }
    let unknown = restricted.iter().any(|hard| !quota.used.contains_key(*hard));
    if unknown {
        let names: Vec<&str> = restricted.iter().map(|hard| hard.as_str()).collect();
        let why = format!("status unknown for quota: {name}, resources: {}", names.join(","));
        return Err(review::forbidden(review, &why));
    }
    let mut requested = delta.clone();
    requested.retain(|own, _| quota.hard.contains_key(own));
    if requested.is_empty() {
        return Ok(false);
    }
    let mut used = quota.used.clone();
    resource_list::add(&mut used, &requested);
    let exceeded = |own: &String| used.get(own) > quota.hard.get(own);
    if requested.keys().any(exceeded) {
        let only = |amounts: &ResourceList| {
            let mut amounts = amounts.clone();
            amounts.retain(|own, _| requested.contains_key(own) && exceeded(own));
            resource_list::print(&amounts)
        };
        let why = format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            only(&requested),
            only(&quota.used),
            only(&quota.hard)
        );
        return Err(review::forbidden(review, &why));
    }
    for (own, amount) in used {
        quota.object.set(&["status", "used", &own], amount.to_string());
    }
    Ok(true)
}
