//! Bootstrap objects of every cluster, and the objects that publish this server's address: created in one transaction
//! where they are missing, and reconciled where they exist.

use std::sync::Arc;

use setpoint_api::{Gvr, Key, Status, Target, User};
use setpoint_kinds::bootstrap;
use setpoint_schema::Tree;
use setpoint_store::{Compare, Op, Put, Txn};
use setpoint_strategy::meta;

use crate::error::Error;
use crate::registry::Registry;
use crate::request_context::RequestContext;
use crate::verbs::set_system_fields;

/// Writes what is missing or out of date in one transaction, so that no reader sees half of it.
pub(crate) async fn run(registry: &Registry) -> Result<(), Error> {
    loop {
        let txn = plan(registry)?;
        if txn.ops.is_empty() {
            return Ok(());
        }
        match registry.store.commit(txn).await {
            // A conflict with another writer: plan again.
            Err(setpoint_store::Error::Precondition { .. }) => {}
            done => return Ok(done.map(drop)?),
        }
    }
}

fn plan(registry: &Registry) -> Result<Txn, Error> {
    let mut txn = Txn::default();
    for (gvr, tree) in bootstrap::objects(&registry.kinds()) {
        add(registry, gvr, tree, Validate::Yes, &mut txn)?;
    }
    // The server may publish an address that the API rejects from others, such as a loopback address.
    for (gvr, tree) in registry
        .server_info
        .get()
        .map(bootstrap::server_objects::objects)
        .unwrap_or_default()
    {
        add(registry, gvr, tree, Validate::No, &mut txn)?;
    }
    Ok(txn)
}

/// Whether an object must pass its kind's validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Validate {
    Yes,
    No,
}

fn add(registry: &Registry, gvr: Gvr, tree: Tree, validate: Validate, txn: &mut Txn) -> Result<(), Error> {
    let object = format!("{}: {:?}", gvr.resource, tree.str_at(&["metadata", "name"]));
    let added = add_object(registry, gvr, tree, validate, txn);
    added.map_err(|status| Error::Bootstrap {
        object,
        status: Box::new(status),
    })
}

/// Adds the write that creates or reconciles an object. Kinds that this server does not serve are skipped.
fn add_object(
    registry: &Registry,
    gvr: Gvr,
    tree: Tree,
    validate: Validate,
    txn: &mut Txn,
) -> Result<(), Status> {
    let user = Arc::new(User::component("system:apiserver"));
    let Some(served) = registry.find_version(&gvr) else {
        return Ok(());
    };
    let context = RequestContext::new(registry, served, user, Target::all(gvr));
    let mut object = tree;
    context
        .kind
        .prepare_input(&mut object)
        .map_err(Status::internal)?;
    let key = Key::new(meta::str(&object, "namespace"), meta::name(&object));
    match context.find(&key)? {
        Some(old) => {
            let before = context.kind.decode_stored(&old).map_err(Status::internal)?;
            if let Some(object) = bootstrap::reconcile::reconcile(&before, &object) {
                txn.compares
                    .push(context.compare_version(&key, old.resource_version()));
                txn.ops
                    .push(Op::Put(context.put(&key, context.resource.encode(&key, &object))));
            }
        }
        None => {
            let put = new_object(&context, &key, object, validate)?;
            txn.compares.push(Compare::Absent { key: put.key.clone() });
            txn.ops.push(Op::Put(put));
        }
    }
    Ok(())
}

fn new_object(
    context: &RequestContext<'_>,
    key: &Key,
    mut object: Tree,
    validate: Validate,
) -> Result<Put, Status> {
    set_system_fields(context, &mut object);
    context.kind.prepare_create(&mut object, &context.facts);
    if validate == Validate::Yes {
        context.validate(key.name(), |errors| {
            context.kind.validate(&object, &context.facts, errors);
        })?;
    }
    Ok(context.put(key, context.resource.encode(key, &object)))
}
