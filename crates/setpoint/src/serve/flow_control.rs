//! Configuration of flow control from the flags and the caches.

use std::sync::Arc;

use anyhow::{Result, ensure};
use setpoint_apiserver::{FlowControlConfig, ObjectStats};
use setpoint_runtime::Caches;

use crate::args::FlowControlFlags;

/// The average size of objects is estimated from the first ones.
const SAMPLED_OBJECTS: usize = 8;

/// The configuration, unless no request could execute with it.
pub(super) fn config(flags: &FlowControlFlags, caches: Arc<dyn Caches>) -> Result<FlowControlConfig> {
    let (reading, mutating) = (flags.max_requests_inflight, flags.max_mutating_requests_inflight);
    ensure!(
        !flags.enable_priority_and_fairness || reading + mutating > 0,
        "invalid configuration: MaxRequestsInFlight={reading} and MaxMutatingRequestsInFlight={mutating}; they must add \
         up to something positive"
    );
    Ok(FlowControlConfig {
        enable_priority_and_fairness: flags.enable_priority_and_fairness,
        max_requests_inflight: reading,
        max_mutating_requests_inflight: mutating,
        object_stats: Box::new(move |resource| {
            let objects = caches.cache(resource)?.snapshot();
            let sample = objects
                .iter()
                .take(SAMPLED_OBJECTS)
                .map(|object| object.json().len());
            let sampled = objects.len().min(SAMPLED_OBJECTS);
            Some(ObjectStats {
                count: objects.len(),
                average_bytes: sample.sum::<usize>().checked_div(sampled).unwrap_or_default(),
            })
        }),
    })
}
