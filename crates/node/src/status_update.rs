//! The body of a status update: the object as it was read, with another status.

use serde::Serialize;
use serde_json::{Map, Value};
use setpoint_api::{Status, Stored, json};

#[derive(Serialize)]
struct StatusUpdate<'a, S> {
    #[serde(flatten)]
    object: Map<String, Value>,
    status: &'a S,
}

/// The object with this status. Everything else stays as it was read, so that no other type of the object is needed.
pub(crate) fn with_status<S: Serialize>(object: &Stored, status: &S) -> Result<Vec<u8>, Status> {
    let mut object: Map<String, Value> = object.decode().map_err(Status::internal)?;
    object.remove("status");
    json::to_vec(&StatusUpdate { object, status }).map_err(Status::internal)
}
