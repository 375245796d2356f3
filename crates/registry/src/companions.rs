//! What admission wants written along with an object, as part of its transaction.

use setpoint_api::options::WriteOptions;
use setpoint_api::{Gvr, Key, Status, Stored, Target};
use setpoint_kinds::{Subresource, meta, parts};
use setpoint_schema::Tree;
use setpoint_store::{Compare, Op, Txn};

use crate::admit::Companion;
use crate::call::Call;
use crate::verbs::set_system_fields;
use crate::{error, managers};

/// Who owns what is written along.
const MANAGER: &str = "kube-apiserver";

/// Adds the companions of a write to its transaction.
pub(crate) fn add(call: &Call<'_>, companions: Vec<Companion>, txn: &mut Txn) -> Result<(), Status> {
    for companion in companions {
        add_one(call, companion, txn)?;
    }
    Ok(())
}

fn add_one(call: &Call<'_>, companion: Companion, txn: &mut Txn) -> Result<(), Status> {
    let (resource, old) = match &companion {
        Companion::Create { resource, .. } => (resource, None),
        Companion::Update { resource, old, .. }
        | Companion::Delete { resource, old }
        | Companion::Unchanged { resource, old } => (resource, Some(old.clone())),
    };
    let own = call.registry.find_resource(resource);
    let own = own.ok_or_else(Status::no_such_resource)?;
    let gvr: Gvr = own.kind.about().gvr.clone();
    let served = call.registry.served(&gvr).ok_or_else(Status::no_such_resource)?;
    let other = Call::new(call.registry, served, call.user.clone(), Target::all(gvr));
    if let Some(old) = old.as_deref() {
        txn.compares
            .push(other.unchanged(old.key(), old.resource_version()));
    }
    match companion {
        Companion::Create { object, .. } => create(&other, object, txn),
        Companion::Update { old, object, .. } => update(other, &old, object, txn)?,
        Companion::Delete { old, .. } => txn.ops.push(Op::Delete {
            key: other.stored_at(old.key()),
        }),
        Companion::Unchanged { .. } => {}
    }
    Ok(())
}

fn create(call: &Call<'_>, mut object: Tree, txn: &mut Txn) {
    managers::update(call, None, &mut object, &by_server());
    set_system_fields(call, &mut object);
    call.kind.prepare_create(&mut object, &call.facts);
    let key = Key::new(meta::str(&object, "namespace"), meta::name(&object));
    txn.compares.push(Compare::Absent {
        key: call.stored_at(&key),
    });
    txn.ops
        .push(Op::Put(call.put(&key, call.resource.write(&key, &object))));
}

/// The server itself owns what it changes along; where only the status changes, as a part of the status.
fn update(mut call: Call<'_>, old: &Stored, mut object: Tree, txn: &mut Txn) -> Result<(), Status> {
    let before = call.kind.revise(old).map_err(error::unreadable)?;
    let status = Subresource::STATUS.name;
    if call.about().find_subresource(status).is_some() && !parts::differ_besides(&object, &before, &[status])
    {
        call.target.subresource = Some(status.into());
    }
    managers::update(&call, Some(&before), &mut object, &by_server());
    let put = call.put(old.key(), call.resource.write(old.key(), &object));
    txn.ops.push(Op::Put(put));
    Ok(())
}

fn by_server() -> WriteOptions {
    WriteOptions {
        field_manager: Some(MANAGER.to_owned()),
        ..WriteOptions::default()
    }
}
