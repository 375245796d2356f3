//! Decides whether the server of an APIService is available. Pure.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIServiceCondition, ServiceReference};

/// The condition that this controller writes.
pub(super) const AVAILABLE: &str = "Available";
/// The port of a service reference that names none.
pub(super) const DEFAULT_PORT: i32 = 443;

/// The availability of an APIService, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Availability {
    status: &'static str,
    pub(super) reason: &'static str,
    message: String,
}

impl Availability {
    /// An APIService that this server serves itself.
    pub(super) fn local() -> Self {
        Self {
            status: "True",
            reason: "Local",
            message: "Local APIServices are always available".to_owned(),
        }
    }

    /// A remote APIService whose server passed its probe.
    pub(super) fn passed() -> Self {
        Self {
            status: "True",
            reason: "Passed",
            message: "all checks passed".to_owned(),
        }
    }

    /// A remote APIService whose server failed its probe.
    pub(super) fn failed(why: String) -> Self {
        Self::not("FailedDiscoveryCheck", why)
    }

    pub(super) fn is_available(&self) -> bool {
        self.status == "True"
    }

    fn not(reason: &'static str, message: String) -> Self {
        Self {
            status: "False",
            reason,
            message,
        }
    }
}

/// Why the Service that a remote APIService references cannot be reached; `None` if it can be probed.
pub(super) fn check_service(
    reference: &ServiceReference,
    service: Option<&Service>,
    slices: &[EndpointSlice],
) -> Option<Availability> {
    let name = reference.name.as_deref().unwrap_or_default();
    let subject = format!(
        "service/{name} in {:?}",
        reference.namespace.as_deref().unwrap_or_default()
    );
    let Some(service) = service else {
        return Some(Availability::not(
            "ServiceNotFound",
            format!("{subject} is not present"),
        ));
    };
    let spec = service.spec.as_ref();
    if spec.and_then(|spec| spec.type_.as_deref()) == Some("ClusterIP") {
        let port_number = reference.port.unwrap_or(DEFAULT_PORT);
        let mut ports = spec
            .and_then(|spec| spec.ports.as_deref())
            .unwrap_or_default()
            .iter();
        let Some(port) = ports.find(|port| port.port == port_number) else {
            return Some(Availability::not(
                "ServicePortError",
                format!("{subject} is not listening on port {port_number}"),
            ));
        };
        if slices.is_empty() {
            return Some(Availability::not(
                "EndpointsNotFound",
                format!("cannot find endpointslices for {subject}"),
            ));
        }
        let port = port.name.as_deref().unwrap_or_default();
        if !slices.iter().any(|slice| has_ready_port(slice, port)) {
            let message = format!("endpointslices for {subject} have no addresses with port name {port:?}");
            return Some(Availability::not("MissingEndpoints", message));
        }
    }
    None
}

fn has_ready_port(slice: &EndpointSlice, port: &str) -> bool {
    let mut ports = slice.ports.as_deref().unwrap_or_default().iter();
    ports.any(|own| own.name.as_deref().unwrap_or_default() == port)
        && slice.endpoints.iter().flatten().any(is_ready)
}

/// An endpoint without a `ready` condition is ready.
pub(super) fn is_ready(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.and_then(|conditions| conditions.ready) != Some(false)
}

/// The conditions with this availability set; `None` if that changes nothing. The transition time stays while the
/// status does.
pub(super) fn conditions(
    before: &[APIServiceCondition],
    availability: Availability,
    now: &Time,
) -> Option<Vec<APIServiceCondition>> {
    let mut all = before.to_vec();
    let at = all.iter().position(|condition| condition.type_ == AVAILABLE);
    let since = at
        .map(|at| &all[at])
        .filter(|condition| condition.status == availability.status)
        .and_then(|condition| condition.last_transition_time.clone());
    let condition = APIServiceCondition {
        type_: AVAILABLE.to_owned(),
        status: availability.status.to_owned(),
        reason: Some(availability.reason.to_owned()),
        message: Some(availability.message),
        last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
    };
    match at {
        Some(at) => all[at] = condition,
        None => all.push(condition),
    }
    (all != before).then_some(all)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
    use k8s_openapi::api::discovery::v1::EndpointPort;

    use super::*;

    fn reference() -> ServiceReference {
        ServiceReference {
            name: Some("api".to_owned()),
            namespace: Some("ns".to_owned()),
            port: Some(8443),
        }
    }

    fn service(port: i32) -> Service {
        let port = ServicePort {
            port,
            name: Some("web".to_owned()),
            ..ServicePort::default()
        };
        let spec = ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        };
        Service {
            spec: Some(spec),
            ..Service::default()
        }
    }

    fn slice(port: &str) -> EndpointSlice {
        EndpointSlice {
            endpoints: Some(vec![Endpoint::default()]),
            ports: Some(vec![EndpointPort {
                name: Some(port.to_owned()),
                ..EndpointPort::default()
            }]),
            ..EndpointSlice::default()
        }
    }

    #[track_caller]
    fn check(service: Option<&Service>, slices: &[EndpointSlice], reason: &str, message: &str) {
        let availability = check_service(&reference(), service, slices).unwrap();
        assert_eq!(
            (
                availability.status,
                availability.reason,
                availability.message.as_str()
            ),
            ("False", reason, message)
        );
    }

    #[test]
    fn an_unavailable_service_reports_the_first_reason() {
        let there = service(8443);
        check(
            None,
            &[],
            "ServiceNotFound",
            r#"service/api in "ns" is not present"#,
        );
        check(
            Some(&service(80)),
            &[],
            "ServicePortError",
            r#"service/api in "ns" is not listening on port 8443"#,
        );
        check(
            Some(&there),
            &[],
            "EndpointsNotFound",
            r#"cannot find endpointslices for service/api in "ns""#,
        );
        check(
            Some(&there),
            &[slice("other")],
            "MissingEndpoints",
            r#"endpointslices for service/api in "ns" have no addresses with port name "web""#,
        );
        assert_eq!(check_service(&reference(), Some(&there), &[slice("web")]), None);
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let time = |text: &str| Time(text.parse().unwrap());
        let (then, now) = (time("2026-01-01T00:00:00Z"), time("2026-01-02T00:00:00Z"));
        let missing = || check_service(&reference(), None, &[]).unwrap();
        let first = conditions(&[], missing(), &then).unwrap();
        assert_eq!(conditions(&first, missing(), &now), None);
        let other = check_service(&reference(), Some(&service(80)), &[]).unwrap();
        let other = conditions(&first, other, &now).unwrap();
        assert_eq!(other[0].last_transition_time, Some(then));
        let changed = conditions(&other, Availability::local(), &now).unwrap();
        assert_eq!(changed[0].last_transition_time, Some(now));
        assert_eq!(changed.len(), 1);
    }
}
