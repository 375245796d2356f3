//! What every cluster starts with: created together, where it is not there yet.

use std::sync::Arc;

use setpoint_api::{Gvr, Key, Status, Target, User};
use setpoint_kinds::meta;
use setpoint_schema::Tree;
use setpoint_store::{Compare, Op, Put, Txn};

use crate::call::Call;
use crate::error::Error;
use crate::registry::Registry;
use crate::verbs::set_system_fields;

/// Creates what is missing in one transaction, so that no one ever sees half of it.
pub(crate) async fn run(registry: &Registry) -> Result<(), Error> {
    loop {
        let mut txn = Txn::default();
        for (gvr, tree) in setpoint_kinds::bootstrap::objects() {
            let object = format!("{}: {:?}", gvr.resource, tree.str_at(&["metadata", "name"]));
            let put = new_object(registry, gvr, tree).map_err(|status| Error::Bootstrap {
                object,
                status: Box::new(status),
            })?;
            if let Some(put) = put {
                let key = put.key.clone();
                txn.compares.push(Compare::Absent { key });
                txn.ops.push(Op::Put(put));
            }
        }
        match registry.store.commit(txn).await {
            // Someone else has created one of them just now: look again.
            Err(setpoint_store::Error::Precondition { .. }) => {}
            done => return Ok(done.map(drop)?),
        }
    }
}

/// The write that creates an object; none if it is there.
fn new_object(registry: &Registry, gvr: Gvr, tree: Tree) -> Result<Option<Put>, Status> {
    let user = Arc::new(User::component("system:apiserver"));
    let served = registry.served(&gvr).ok_or_else(Status::no_such_resource)?;
    let call = Call::new(registry, served, user, Target::all(gvr));
    let mut object = tree;
    call.kind.take_in(&mut object).map_err(Status::internal)?;
    let key = Key::new(meta::str(&object, "namespace"), meta::name(&object));
    if call.find(&key)?.is_some() {
        return Ok(None);
    }
    set_system_fields(&call, &mut object);
    call.kind.prepare_create(&mut object, &call.facts);
    call.check(key.name(), |errors| call.kind.validate(&object, errors))?;
    Ok(Some(call.put(&key, call.resource.write(&object))))
}
