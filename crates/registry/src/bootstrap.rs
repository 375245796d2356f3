//! What every cluster starts with: created together, where it is not there yet.

use std::sync::Arc;

use setpoint_api::{Gvr, Status, Target, User};
use setpoint_schema::Tree;
use setpoint_store::{Compare, Op, Put, Txn};

use crate::call::Call;
use crate::error::Error;
use crate::registry::Registry;
use crate::verbs::make_ready;

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
    let resource = registry.resource(&gvr).ok_or_else(Status::no_such_resource)?;
    let mut draft = resource.kind.draft(tree).map_err(Status::internal)?;
    draft.default_fields();
    let call = Call::new(registry, resource, user, Target::all(gvr));
    let (key, written) = make_ready(&call, &mut *draft, false)?;
    Ok(match call.find(&key)? {
        Some(_) => None,
        None => Some(call.put(&key, written, &*draft)),
    })
}
