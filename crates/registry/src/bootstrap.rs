//! Bootstrap objects of every cluster, and the objects that publish this server's address: created in one transaction
//! where they are missing, and reconciled where they exist.

use std::sync::Arc;

use setpoint_api::{ApiVerb, Key, Status, Target, User};
use setpoint_schema::Tree;
use setpoint_store::{Compare, Op, Put, Txn};
use setpoint_strategy::{BootstrapObject, meta};

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
    for desired in &registry.bootstrap {
        let added = add_object(registry, desired, &mut txn);
        added.map_err(|status| Error::Bootstrap {
            object: format!("{}: {:?}", desired.resource.resource, meta::name(&desired.object)),
            status: Box::new(status),
        })?;
    }
    Ok(txn)
}

/// Adds the write that creates or reconciles an object. Kinds that this server does not serve are skipped.
fn add_object(registry: &Registry, desired: &BootstrapObject, txn: &mut Txn) -> Result<(), Status> {
    let user = Arc::new(User::component("system:apiserver"));
    let Some(served) = registry.find_version(&desired.resource) else {
        return Ok(());
    };
    let target = Target::all(desired.resource.clone());
    let context = RequestContext::new(registry, served, user, ApiVerb::Create, target);
    let mut object = desired.object.clone();
    context
        .kind
        .prepare_input(&mut object)
        .map_err(Status::internal)?;
    let key = Key::new(meta::str(&object, "namespace"), meta::name(&object));
    match context.find(&key)? {
        Some(old) => {
            let before = context.kind.decode_stored(&old).map_err(Status::internal)?;
            if let Some(object) = (desired.reconcile)(&before, &object) {
                txn.compares
                    .push(context.compare_version(&key, old.resource_version()));
                txn.ops.push(Op::Put(
                    context.put(&key, context.resource.encode(&key, &object)?),
                ));
            }
        }
        None => {
            let put = new_object(&context, &key, object, desired.is_validated)?;
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
    is_validated: bool,
) -> Result<Put, Status> {
    set_system_fields(context, &mut object);
    context.kind.prepare_create(&mut object, &context.facts);
    if is_validated {
        context.validate(key.name(), |errors| {
            context.kind.validate(&object, &context.facts, errors);
        })?;
    }
    Ok(context.put(key, context.resource.encode(key, &object)?))
}
