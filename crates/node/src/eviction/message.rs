//! The message of an eviction, in the kubelet's words: pure.

use k8s_openapi::api::core::v1;
use setpoint_api::Quantity;

use super::observation::Observations;
use super::threshold::{Signal, Threshold};
use super::usage::ContainerUsage;

/// Why a pod is evicted: the resource that is low, and its containers that use more of it than they requested.
pub(super) fn message(
    threshold: &Threshold,
    observations: &Observations,
    pod: &v1::Pod,
    containers: &ContainerUsage,
) -> String {
    let resource = threshold.signal.resource();
    let mut message = format!("The node was low on resource: {resource}. ");
    if let Some(observed) = observations.get(&threshold.signal) {
        let available = Quantity::new(observed.available, threshold.signal.format());
        let least = threshold.amount(observed.capacity);
        message += &format!("Threshold quantity: {least}, available: {available}. ");
    }
    for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
        let Some(stats) = containers.get(&container.name) else {
            continue;
        };
        let usage = match threshold.signal {
            Signal::MemoryAvailable => stats.working_set_bytes,
            Signal::NodeFsAvailable | Signal::ImageFsAvailable => stats.writable_layer_bytes,
            _ => continue,
        };
        let usage = Quantity::new(
            i64::try_from(usage).unwrap_or(i64::MAX),
            threshold.signal.format(),
        );
        let request = request(container, resource);
        if usage > request {
            let name = &container.name;
            message += &format!(
                "Container {name} was using {usage}, request is {request}, has larger consumption of {resource}. "
            );
        }
    }
    message
}

fn request(container: &v1::Container, resource: &str) -> Quantity {
    let requests = container
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref());
    let request = requests.and_then(|requests| requests.get(resource)?.0.parse().ok());
    request.unwrap_or(Quantity::ZERO)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use setpoint_container_runtime::{ContainerId, ContainerStats};

    use super::super::observation::Observation;
    use super::super::threshold::parse;
    use super::*;

    #[test]
    fn the_message_names_the_resource_and_the_containers_that_exceed_their_requests() {
        let threshold = parse("memory.available<100Mi").unwrap()[0];
        let observed = Observation {
            available: 50 << 20,
            capacity: 1 << 30,
        };
        let observations = Observations::from([(Signal::MemoryAvailable, observed)]);
        let within = json!({ "name": "b", "resources": { "requests": { "memory": "1Gi" } } });
        let pod = json!({ "metadata": {}, "spec": { "containers": [{ "name": "a" }, within] } });
        let stats = |name: &str| {
            let stats = ContainerStats {
                id: ContainerId(name.to_owned()),
                sandbox: None,
                time: Timestamp::UNIX_EPOCH,
                cpu_nanoseconds: 0,
                working_set_bytes: 8 << 20,
                writable_layer_bytes: 0,
            };
            (name.to_owned(), stats)
        };
        let usage = ContainerUsage::from(["a", "b"].map(stats));
        let pod = serde_json::from_value(pod).unwrap();
        let expected = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. \
                        Container a was using 8Mi, request is 0, has larger consumption of memory. ";
        assert_eq!(message(&threshold, &observations, &pod, &usage), expected);
    }
}
