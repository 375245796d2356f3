//! Side writes: further objects that admission writes in the transaction of an object.

use bytes::Bytes;
use setpoint_api::options::WriteOptions;
use setpoint_api::{Gvr, Key, Status, Stored, Target};
use setpoint_registry_api::SideWrite;
use setpoint_schema::Tree;
use setpoint_store::{Compare, Op, Txn};
use setpoint_strategy::{Subresource, meta, top_level};

use crate::request_context::RequestContext;
use crate::verbs::set_system_fields;
use crate::{error, field_managers, key};

/// The field manager of side writes.
const MANAGER: &str = "kube-apiserver";

/// Adds the side writes to the transaction of a write.
pub(crate) fn add(
    context: &RequestContext<'_>,
    side_writes: Vec<SideWrite>,
    txn: &mut Txn,
) -> Result<(), Status> {
    for side_write in side_writes {
        add_one(context, side_write, txn)?;
    }
    Ok(())
}

fn add_one(context: &RequestContext<'_>, side_write: SideWrite, txn: &mut Txn) -> Result<(), Status> {
    let (resource, old) = match &side_write {
        SideWrite::Create { resource, .. } | SideWrite::NoneNewer { resource, .. } => (resource, None),
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
    if let Some(old) = old.as_deref() {
        txn.compares
            .push(other.compare_version(old.key(), old.resource_version()));
    }
    match side_write {
        SideWrite::Create { object, .. } => create(&other, object, txn)?,
        SideWrite::Update { old, object, .. } => update(other, &old, object, txn)?,
        SideWrite::Delete { old, .. } => txn.ops.push(Op::Delete {
            key: other.storage_key(old.key()),
        }),
        SideWrite::NoneNewer { version, .. } => txn.compares.push(Compare::Unchanged {
            prefix: Bytes::from(other.resource.prefix.clone()),
            since: key::revision(version),
        }),
        SideWrite::Unchanged { .. } => {}
    }
    Ok(())
}

fn create(context: &RequestContext<'_>, mut object: Tree, txn: &mut Txn) -> Result<(), Status> {
    field_managers::update(context, None, &mut object, &by_server());
    set_system_fields(context, &mut object);
    context.kind.prepare_create(&mut object, &context.facts);
    let key = Key::new(meta::str(&object, "namespace"), meta::name(&object));
    txn.compares.push(Compare::Absent {
        key: context.storage_key(&key),
    });
    let put = context.put(&key, context.resource.encode(&key, &object)?);
    txn.ops.push(Op::Put(put));
    Ok(())
}

/// The API server is the field manager of what changes; where only the status changes, in the `status` subresource.
fn update(
    mut context: RequestContext<'_>,
    old: &Stored,
    mut object: Tree,
    txn: &mut Txn,
) -> Result<(), Status> {
    let before = context.kind.decode_stored(old).map_err(error::undecodable)?;
    let status = Subresource::STATUS.name;
    if context.kind_info().find_subresource(status).is_some()
        && !top_level::differ_except(&object, &before, &[status])
    {
        context.target.subresource = Some(status.into());
    }
    field_managers::update(&context, Some(&before), &mut object, &by_server());
    let put = context.put(old.key(), context.resource.encode(old.key(), &object)?);
    txn.ops.push(Op::Put(put));
    Ok(())
}

fn by_server() -> WriteOptions {
    WriteOptions {
        field_manager: Some(MANAGER.to_owned()),
        ..WriteOptions::default()
    }
}
