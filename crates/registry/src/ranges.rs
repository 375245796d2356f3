//! Ranges: which numbers are allocated to the objects of a resource, such as ports of nodes. On an etcd it is the bitmap that
//! kube-apiserver allocates from, so that two servers of either kind never allocate a number twice. It is no object of the
//! API, so that no cache has it, and it is stored with the objects of its resource.

use bytes::Bytes;
use setpoint_api::{GroupResource, ResourceVersion, Status};
use setpoint_codec::protobuf::range_allocation;
use setpoint_registry_api::{RangeAllocation, StoredRange};
use setpoint_store::{Compare, Op, Put};

use crate::registry::Registry;
use crate::request_context::RequestContext;
use crate::write_txn::WriteTxn;
use crate::{error, key};

/// The range of a resource, as it is in the store now.
pub(crate) fn find(registry: &Registry, resource: &GroupResource) -> Result<Option<StoredRange>, Status> {
    let Some(resource) = registry.find_resource(resource) else {
        return Ok(None);
    };
    let key = key::range_key(&resource.name);
    let store = &resource.backend.store;
    let Some(record) = store.snapshot().get(&key) else {
        store.check_decodable(&key).map_err(error::from_store)?;
        return Ok(None);
    };
    let decoded = range_allocation::decode(&record.value);
    let (range, data) = decoded.map_err(|error| {
        let key = key.escape_ascii();
        Status::internal(format!("cannot decode the range allocation {key}: {error}"))
    })?;
    Ok(Some(StoredRange {
        allocation: RangeAllocation { range, data },
        version: key::version(record.modified),
    }))
}

/// Adds the compare of a range, and its replacement, to the write of an object of its resource.
pub(crate) fn add(
    context: &RequestContext<'_>,
    read: Option<ResourceVersion>,
    new: Option<&RangeAllocation>,
    txn: &mut WriteTxn<'_>,
) {
    let key = key::range_key(&context.resource.name);
    txn.own.compares.push(match read {
        Some(version) => Compare::Modified {
            key: key.clone(),
            revision: key::revision(version),
        },
        None => Compare::Absent { key: key.clone() },
    });
    if let Some(RangeAllocation { range, data }) = new {
        txn.own.ops.push(Op::Put(Put {
            key,
            value: Bytes::from(range_allocation::encode(range, data)),
            ..Put::default()
        }));
    }
}
