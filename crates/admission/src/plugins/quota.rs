//! ResourceQuota: limits on the resources of a namespace, charged on each write.
//!
//! The quota's usage is written in the same transaction as the object, so that two concurrent writes cannot exceed it.

use std::sync::Arc;

use setpoint_api::{GroupResource, Key, Quantity, Status, Stored};
use setpoint_registry_api::{Operation, Review, SideWrite};
use setpoint_schema::tree::from_tree;
use setpoint_schema::{Tree, fields};
use setpoint_values::quota::{self, QuotaKind, QuotaObject, Scopes};
use setpoint_values::resource_list::{self, Amounts, ResourceList};

use crate::chain::Plugin;
use crate::resource_list::parse;
use crate::review;

/// Charges and checks the quotas of a namespace.
#[derive(Debug)]
pub(crate) struct ResourceQuota;

/// A quota of the namespace.
#[derive(Debug)]
struct Quota {
    stored: Arc<Stored>,
    object: Tree,
    scopes: Scopes,
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
        let written = review.kind.gvr.group_resource();
        if !can_change_usage(review, QuotaKind::of(&written)) {
            return Ok(());
        }
        let quotas = quotas(review);
        if quotas.is_empty() {
            return Ok(());
        }
        let Some(object) = review.object.as_deref() else {
            return Ok(());
        };
        let object = read(&written, object)?;
        let delta = delta(review, &written, &object)?;
        for mut quota in quotas {
            if charge(review, &mut quota, &object, &delta)? && !review.dry_run {
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
            scopes: object
                .get("spec")
                .and_then(|spec| from_tree(spec).ok())
                .unwrap_or_default(),
            hard: parse(object.at(&[fields::STATUS, fields::HARD])),
            used: parse(object.at(&[fields::STATUS, fields::USED])),
            stored,
            object,
        })
    });
    fresh.collect()
}

/// Whether the write can change the usage.
fn can_change_usage(review: &Review<'_>, kind: QuotaKind) -> bool {
    match (review.operation, review.subresource) {
        (Operation::Create, None) => true,
        (Operation::Update, None) => matches!(kind, QuotaKind::Service | QuotaKind::Claim),
        (Operation::Update, Some("resize")) => kind == QuotaKind::Pod,
        _ => false,
    }
}

/// The fields that quotas count. Nothing is read of other kinds.
fn read(resource: &GroupResource, object: &Tree) -> Result<QuotaObject, Status> {
    match QuotaKind::of(resource) {
        QuotaKind::Other => Ok(QuotaObject::default()),
        _ => from_tree(object).map_err(Status::internal),
    }
}

/// What the write adds to the usage.
fn delta(review: &Review<'_>, written: &GroupResource, object: &QuotaObject) -> Result<ResourceList, Status> {
    let mut delta = quota::usage(written, object);
    if review.operation == Operation::Update
        && let Some(old) = review.decode_old()
    {
        for (name, amount) in quota::usage(written, &read(written, &old)?) {
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
    Ok(delta)
}

/// Charges a quota, if it matches the object. Returns whether the usage changed.
fn charge(
    review: &Review<'_>,
    quota: &mut Quota,
    object: &QuotaObject,
    delta: &ResourceList,
) -> Result<bool, Status> {
    let written = review.kind.gvr.group_resource();
    let kind = QuotaKind::of(&written);
    let name = quota.stored.key().name();
    let mut restricted: Vec<&str> = quota.hard.keys().map(String::as_str).collect();
    restricted.retain(|hard| quota::counts(&written, hard));
    if restricted.is_empty() || !quota.scopes.match_all(kind, object) {
        return Ok(false);
    }
    if kind == QuotaKind::Pod
        && let Err(why) = quota::check_specified(object, &restricted)
    {
        return Err(review::forbidden(review, &format!("failed quota: {name}: {why}")));
    }
    let unknown = restricted.iter().any(|hard| !quota.used.contains_key(*hard));
    if unknown {
        let why = format!(
            "status unknown for quota: {name}, resources: {}",
            restricted.join(",")
        );
        return Err(review::forbidden(review, &why));
    }
    let mut requested = delta.clone();
    requested.retain(|own, _| quota.hard.contains_key(own));
    if requested.is_empty() {
        return Ok(false);
    }
    let mut used = quota.used.clone();
    used.add(&requested);
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
        quota
            .object
            .set(&[fields::STATUS, fields::USED, &own], amount.to_string());
    }
    Ok(true)
}
