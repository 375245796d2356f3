//! Side writes: further objects, and ranges, that admission writes in the transaction of an object, if they are on the same
//! store.

use std::sync::Arc;

use setpoint_api::options::WriteOptions;
use setpoint_api::{Gvr, Key, Status, Stored, Target};
use setpoint_registry_api::SideWrite;
use setpoint_schema::Tree;
use setpoint_store::Compare;
use setpoint_strategy::{Subresource, meta, top_level};

use crate::request_context::RequestContext;
use crate::verbs::set_system_fields;
use crate::write_txn::WriteTxn;
use crate::{error, field_managers, ranges};

/// The field manager of side writes.
const MANAGER: &str = "kube-apiserver";

/// Adds the side writes to the transactions of a write.
pub(crate) fn add(
    context: &RequestContext<'_>,
    side_writes: Vec<SideWrite>,
    txn: &mut WriteTxn<'_>,
) -> Result<(), Status> {
    for side_write in side_writes {
        add_one(context, side_write, txn)?;
    }
    Ok(())
}

fn add_one(
    context: &RequestContext<'_>,
    side_write: SideWrite,
    txn: &mut WriteTxn<'_>,
) -> Result<(), Status> {
    let (resource, old) = match &side_write {
        SideWrite::Range { read, new } => {
            ranges::add(context, *read, new.as_ref(), txn);
            return Ok(());
        }
        SideWrite::Create { resource, .. } => (resource, None),
        SideWrite::Update { resource, old, .. }
        | SideWrite::Delete { resource, old }
        | SideWrite::Unchanged { resource, old } => (resource, Some(old.clone())),
    };
    let resource = context.registry.find_resource(resource);
    let resource = resource.ok_or_else(Status::no_such_resource)?;
    let gvr: Gvr = resource.kind.info().gvr.clone();
    let served = context
        .registry
        .find_version(&gvr)
        .ok_or_else(Status::no_such_resource)?;
    let (user, target) = (context.user.clone(), Target::all(gvr));
    let other = RequestContext::new(context.registry, served, user, context.verb, target);
    let backend = &other.resource.backend.clone();
    if let Some(old) = old.as_deref() {
        txn.add_compare(backend, other.compare_version(old.key(), old.resource_version()));
    }
    match side_write {
        SideWrite::Create { object, .. } => create(&other, object, txn)?,
        SideWrite::Update { old, object, .. } => update(other, old, object, txn)?,
        SideWrite::Delete { old, .. } => txn.add_delete(backend, other.storage_key(old.key())),
        // Only compared, or added above.
        SideWrite::Unchanged { .. } | SideWrite::Range { .. } => {}
    }
    Ok(())
}

fn create(context: &RequestContext<'_>, mut object: Tree, txn: &mut WriteTxn<'_>) -> Result<(), Status> {
    field_managers::update(context, None, &mut object, &by_server());
    set_system_fields(context, &mut object);
    context.kind.prepare_create(&mut object, &context.facts);
    let key = Key::new(meta::str(&object, "namespace"), meta::name(&object));
    let backend = &context.resource.backend;
    let absent = Compare::Absent {
        key: context.storage_key(&key),
    };
    txn.add_compare(backend, absent);
    let put = context.put(&key, context.resource.encode(&key, &object)?);
    txn.add_put(backend, put, None);
    Ok(())
}

/// The API server is the field manager of what changes; where only the status changes, in the `status` subresource.
fn update(
    mut context: RequestContext<'_>,
    old: Arc<Stored>,
    mut object: Tree,
    txn: &mut WriteTxn<'_>,
) -> Result<(), Status> {
    let before = context.kind.decode_stored(&old).map_err(error::undecodable)?;
    let status = Subresource::STATUS.name;
    if context.kind_info().find_subresource(status).is_some()
        && !top_level::differ_except(&object, &before, &[status])
    {
        context.target.subresource = Some(status.into());
    }
    field_managers::update(&context, Some(&before), &mut object, &by_server());
    let put = context.put(old.key(), context.resource.encode(old.key(), &object)?);
    txn.add_put(&context.resource.backend, put, Some(old));
    Ok(())
}

fn by_server() -> WriteOptions {
    WriteOptions {
        field_manager: Some(MANAGER.to_owned()),
        ..WriteOptions::default()
    }
}
