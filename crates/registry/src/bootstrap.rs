//! Bootstrap objects of every cluster, and the objects that publish this server's address: created in one transaction
//! of each store where they are missing, and reconciled where they exist. Some are checked again while the server runs.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use setpoint_api::options::WriteOptions;
use setpoint_api::{ApiVerb, Key, Status, Stored, Target, User};
use setpoint_schema::Tree;
use setpoint_store::{Compare, Op, Put, Txn};
use setpoint_strategy::{BootstrapObject, Recheck, UpdateContext, meta};

use crate::backend::Backend;
use crate::error::{self, Error};
use crate::field_managers;
use crate::registry::Registry;
use crate::request_context::RequestContext;
use crate::verbs::{NewObject, create_object, set_system_fields};

/// The operations that etcd accepts in one transaction are limited (`--max-txn-ops`, 128 by default).
const REPLICATED_TXN_OPS: usize = 100;

/// How often an object is planned again after a conflict.
const CONFLICT_TRIES: usize = 5;

/// Writes what is missing or out of date in one transaction of each store, so that no reader sees half of it. On etcd it
/// takes several, and servers that start at the same time share the work.
pub(crate) async fn run(registry: &Registry) -> Result<(), Error> {
    for backend in registry.caches.backends().iter() {
        write_missing(registry, backend).await?;
    }
    Ok(())
}

async fn write_missing(registry: &Registry, backend: &Backend) -> Result<(), Error> {
    let max_ops = match backend.store.is_replica() {
        true => REPLICATED_TXN_OPS,
        false => usize::MAX,
    };
    loop {
        let mut txn = plan(registry, backend)?;
        if txn.ops.is_empty() {
            return Ok(());
        }
        let is_part = txn.ops.len() > max_ops;
        // Each object has one compare and one operation.
        txn.compares.truncate(max_ops);
        txn.ops.truncate(max_ops);
        match backend.store.commit(txn).await {
            // A conflict with another writer: plan again.
            Err(setpoint_store::Error::Precondition { .. }) => {}
            Ok(_) if is_part => {}
            done => return Ok(done.map(drop)?),
        }
    }
}

/// Creates and reconciles the objects again, each at its own interval.
pub(crate) async fn recheck(registry: &Registry) -> Infallible {
    let periods = registry.bootstrap.iter();
    let periods: BTreeSet<Duration> = periods.filter_map(|desired| desired.recheck.period()).collect();
    join_all(periods.into_iter().map(|period| recheck_every(registry, period))).await;
    std::future::pending().await
}

async fn recheck_every(registry: &Registry, period: Duration) {
    loop {
        registry.clock.sleep(period).await;
        let due = registry.bootstrap.iter();
        for desired in due.filter(|desired| desired.recheck.period() == Some(period)) {
            if let Err(status) = recheck_object(registry, desired).await {
                let (resource, name) = (&desired.resource.resource, meta::name(&desired.object));
                tracing::warn!(%resource, name, %status.message, "cannot write bootstrap object");
            }
        }
    }
}

/// A missing object is created like that of any client, with admission; only one that its kind rejects is written past
/// the rules. After several conflicts with other writers it is left to the next check.
pub(crate) async fn recheck_object(registry: &Registry, desired: &BootstrapObject) -> Result<(), Status> {
    for _ in 0..CONFLICT_TRIES {
        if let Attempt::Done = try_object(registry, desired).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// What became of one attempt to write an object.
enum Attempt {
    /// It is as desired, or was written.
    Done,
    /// Another writer has changed it meanwhile.
    Conflict,
}

async fn try_object(registry: &Registry, desired: &BootstrapObject) -> Result<Attempt, Status> {
    let Some((context, key)) = context_of(registry, desired) else {
        return Ok(Attempt::Done);
    };
    let existing = context.find(&key)?;
    if is_reconciled(&context, desired, (&key, existing.as_ref())) {
        return Ok(Attempt::Done);
    }
    if existing.is_some() && matches!(desired.recheck, Recheck::CreateEvery(_)) {
        return Ok(Attempt::Done);
    }
    let object = prepare(&context, desired)?;
    if existing.is_none() && desired.is_validated {
        let created = create_object(&context, NewObject::Update(&object), &options(desired)).await;
        return match created {
            Err(status) if status.is_already_exists() => Ok(Attempt::Conflict),
            created => created.map(|_| Attempt::Done),
        };
    }
    let mut txn = Txn::default();
    add_object(&context, desired, (&key, existing, object), &mut txn)?;
    if txn.ops.is_empty() {
        return Ok(Attempt::Done);
    }
    match context.backend().store.commit(txn).await {
        Err(setpoint_store::Error::Precondition { .. }) => Ok(Attempt::Conflict),
        done => done.map(|_| Attempt::Done).map_err(error::from_store),
    }
}

fn plan(registry: &Registry, backend: &Backend) -> Result<Txn, Error> {
    let mut txn = Txn::default();
    for desired in &registry.bootstrap {
        plan_object((registry, backend), desired, &mut txn).map_err(|status| Error::Bootstrap {
            object: format!("{}: {:?}", desired.resource.resource, meta::name(&desired.object)),
            status: Box::new(status),
        })?;
    }
    Ok(txn)
}

fn plan_object(
    (registry, backend): (&Registry, &Backend),
    desired: &BootstrapObject,
    txn: &mut Txn,
) -> Result<(), Status> {
    let context = context_of(registry, desired);
    let Some((context, key)) = context.filter(|(context, _)| context.backend().is(backend)) else {
        return Ok(());
    };
    let existing = context.find(&key)?;
    if is_reconciled(&context, desired, (&key, existing.as_ref())) {
        return Ok(());
    }
    let object = prepare(&context, desired)?;
    add_object(&context, desired, (&key, existing, object), txn)
}

/// The context of its writes, and its key. Kinds that this server does not serve have none.
fn context_of<'a>(registry: &'a Registry, desired: &BootstrapObject) -> Option<(RequestContext<'a>, Key)> {
    let served = registry.find_version(&desired.resource)?;
    let key = Key::new(
        meta::str(&desired.object, "namespace"),
        meta::name(&desired.object),
    );
    let user = Arc::new(User::component("system:apiserver"));
    let target = Target::in_namespace(desired.resource.clone(), key.namespace());
    let context = RequestContext::new(registry, served, user, ApiVerb::Create, target);
    Some((context, key))
}

/// Whether the existing object is known to be as desired: a fork shares what its origin has found out.
fn is_reconciled(
    context: &RequestContext<'_>,
    desired: &BootstrapObject,
    (key, existing): (&Key, Option<&Arc<Stored>>),
) -> bool {
    let reconciled = context.registry.caches.reconciled();
    existing.is_some_and(|object| reconciled.contains(&context.storage_key(key), object, &desired.object))
}

/// The object with its defaults.
fn prepare(context: &RequestContext<'_>, desired: &BootstrapObject) -> Result<Tree, Status> {
    let mut object = desired.object.clone();
    let prepared = context.kind.prepare_input(&mut object);
    prepared.map_err(Status::internal)?;
    Ok(object)
}

/// Adds the write that creates or reconciles an object.
fn add_object(
    context: &RequestContext<'_>,
    desired: &BootstrapObject,
    (key, existing, object): (&Key, Option<Arc<Stored>>, Tree),
    txn: &mut Txn,
) -> Result<(), Status> {
    match existing {
        Some(old) => {
            let before = context.kind.decode_stored(&old).map_err(Status::internal)?;
            let Some(mut object) = (desired.reconcile)(&before, &object) else {
                let reconciled = context.registry.caches.reconciled();
                reconciled.insert(context.storage_key(key), old, &desired.object);
                return Ok(());
            };
            field_managers::update(context, Some(&before), &mut object, &options(desired));
            let update = UpdateContext {
                old: &before,
                subresource: None,
                facts: &context.facts,
            };
            context.kind.prepare_update(&mut object, &update);
            txn.compares
                .push(context.compare_version(key, old.resource_version()));
            let encoded = context.resource.encode(key, &object)?;
            txn.ops.push(Op::Put(context.put(key, encoded)));
        }
        None => {
            let put = new_object(context, desired, key, object)?;
            txn.compares.push(Compare::Absent { key: put.key.clone() });
            txn.ops.push(Op::Put(put));
        }
    }
    Ok(())
}

fn new_object(
    context: &RequestContext<'_>,
    desired: &BootstrapObject,
    key: &Key,
    mut object: Tree,
) -> Result<Put, Status> {
    field_managers::update(context, None, &mut object, &options(desired));
    set_system_fields(context, &mut object);
    context.kind.prepare_create(&mut object, &context.facts);
    if desired.is_validated {
        context.validate(key.name(), |errors| {
            context.kind.validate(&object, &context.facts, errors);
        })?;
    }
    Ok(context.put(key, context.resource.encode(key, &object)?))
}

fn options(desired: &BootstrapObject) -> WriteOptions {
    WriteOptions {
        field_manager: Some(desired.field_manager.to_owned()),
        ..WriteOptions::default()
    }
}
