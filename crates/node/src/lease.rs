//! The Lease that serves as the heartbeat of a node: pure.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};

/// The namespace of node Leases.
pub(crate) const NAMESPACE: &str = "kube-node-lease";

/// How long a node counts as alive after its last renewal.
const DURATION_SECONDS: i32 = 40;

/// The Lease of a node, renewed now. With a resource version, for an update of that version only.
pub(crate) fn lease(now: Timestamp, node: &str, uid: Option<&str>, version: Option<&str>) -> Lease {
    let mut lease = Lease::default();
    lease.metadata.name = Some(node.to_owned());
    lease.metadata.namespace = Some(NAMESPACE.to_owned());
    lease.metadata.resource_version = version.map(str::to_owned);
    lease.metadata.owner_references = uid.map(|uid| vec![owned_by(node, uid)]);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(node.to_owned()),
        lease_duration_seconds: Some(DURATION_SECONDS),
        renew_time: Some(MicroTime(whole_micros(now))),
        ..LeaseSpec::default()
    });
    lease
}

/// The Lease is garbage-collected with its Node.
fn owned_by(node: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

fn whole_micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_by_its_node_and_goes_with_it() {
        let now = Timestamp::from_nanosecond(1_500_000_123_456).unwrap();
        let lease = serde_json::to_value(lease(now, "n1", Some("u"), Some("7"))).unwrap();
        assert_eq!(lease["spec"]["holderIdentity"], "n1");
        assert_eq!(lease["spec"]["renewTime"], "1970-01-01T00:25:00.000123Z");
        assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(lease["metadata"]["resourceVersion"], "7");
    }
}
