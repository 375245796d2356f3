//! What every cluster starts with, and what tells where this server is: created together, where it is not there yet, and
//! brought up to date where it is.

use std::sync::Arc;

use setpoint_api::{Gvr, Key, Status, Target, User};
use setpoint_kinds::{bootstrap, meta};
use setpoint_schema::Tree;
use setpoint_store::{Compare, Op, Put, Txn};

use crate::call::Call;
use crate::error::Error;
use crate::registry::Registry;
use crate::verbs::set_system_fields;

/// Writes what is missing or out of date in one transaction, so that no one ever sees half of it.
pub(crate) async fn run(registry: &Registry) -> Result<(), Error> {
    loop {
        let txn = plan(registry)?;
        if txn.ops.is_empty() {
            return Ok(());
        }
        match registry.store.commit(txn).await {
            // Someone else has written one of them just now: look again.
            Err(setpoint_store::Error::Precondition { .. }) => {}
            done => return Ok(done.map(drop)?),
        }
    }
}

fn plan(registry: &Registry) -> Result<Txn, Error> {
    let mut txn = Txn::default();
    for (gvr, tree) in bootstrap::objects(&registry.kinds()) {
        add(registry, gvr, tree, Checked::Yes, &mut txn)?;
    }
    // What the server says of itself is true even where nobody else may say it: that it is on a loopback address.
    for (gvr, tree) in registry
        .own
        .get()
        .map(bootstrap::own::objects)
        .unwrap_or_default()
    {
        add(registry, gvr, tree, Checked::No, &mut txn)?;
    }
    Ok(txn)
}

/// Whether an object must pass the rules of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checked {
    Yes,
    No,
}

fn add(registry: &Registry, gvr: Gvr, tree: Tree, checked: Checked, txn: &mut Txn) -> Result<(), Error> {
    let object = format!("{}: {:?}", gvr.resource, tree.str_at(&["metadata", "name"]));
    let added = add_object(registry, gvr, tree, checked, txn);
    added.map_err(|status| Error::Bootstrap {
        object,
        status: Box::new(status),
    })
}

/// Adds the write that creates an object or brings it up to date. What this server does not serve is passed over.
fn add_object(
    registry: &Registry,
    gvr: Gvr,
    tree: Tree,
    checked: Checked,
    txn: &mut Txn,
) -> Result<(), Status> {
    let user = Arc::new(User::component("system:apiserver"));
    let Some(served) = registry.served(&gvr) else {
        return Ok(());
    };
    let call = Call::new(registry, served, user, Target::all(gvr));
    let mut object = tree;
    call.kind.take_in(&mut object).map_err(Status::internal)?;
    let key = Key::new(meta::str(&object, "namespace"), meta::name(&object));
    match call.find(&key)? {
        Some(old) => {
            let before = call.kind.revise(&old).map_err(Status::internal)?;
            if let Some(object) = bootstrap::reconcile::reconciled(&before, &object) {
                txn.compares.push(call.unchanged(&key, old.resource_version()));
                txn.ops
                    .push(Op::Put(call.put(&key, call.resource.write(&key, &object))));
            }
        }
        None => {
            let put = new_object(&call, &key, object, checked)?;
            txn.compares.push(Compare::Absent { key: put.key.clone() });
            txn.ops.push(Op::Put(put));
        }
    }
    Ok(())
}

fn new_object(call: &Call<'_>, key: &Key, mut object: Tree, checked: Checked) -> Result<Put, Status> {
    set_system_fields(call, &mut object);
    call.kind.prepare_create(&mut object, &call.facts);
    if checked == Checked::Yes {
        call.check(key.name(), |errors| call.kind.validate(&object, errors))?;
    }
    Ok(call.put(key, call.resource.write(key, &object)))
}
