//! Service resolution: one of the ready endpoints of a Service, or the host of an ExternalName.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use setpoint_api::Key;
use setpoint_runtime::{Caches, Lister, Object};

use super::{SERVICE_NAME, plan};

/// Resolves Services from the caches.
pub struct ServiceResolver {
    services: Lister<Service>,
    slices: Lister<EndpointSlice>,
    /// Round-robin counter over the endpoints.
    next: AtomicUsize,
}

impl ServiceResolver {
    /// `None` if Services or EndpointSlices are not served.
    pub fn new(caches: &dyn Caches) -> Option<Self> {
        Some(Self {
            services: Lister::new(caches.cache(&Service::resource().group_resource())?),
            slices: Lister::new(caches.cache(&EndpointSlice::resource().group_resource())?),
            next: AtomicUsize::default(),
        })
    }

    /// A host and a port of the Service, or why there is none.
    pub fn resolve_endpoint(&self, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String> {
        let service = self.services.find(&Key::new(namespace, name));
        let service = service.ok_or_else(|| format!("service {name:?} not found"))?;
        let service = service.shared().map_err(|status| status.to_string())?;
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        resolve(name, &service, &self.slices_of(namespace, name), (port, next))
    }

    fn slices_of(&self, namespace: &str, name: &str) -> Vec<Arc<EndpointSlice>> {
        let slices = self.slices.in_namespace(namespace).into_iter();
        let own = slices.filter(|slice| slice.label(SERVICE_NAME) == Some(name));
        own.filter_map(|slice| slice.shared().ok()).collect()
    }
}

impl fmt::Debug for ServiceResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceResolver").finish_non_exhaustive()
    }
}

/// Resolves a Service to the endpoint of this round-robin counter.
fn resolve(
    name: &str,
    service: &Service,
    slices: &[Arc<EndpointSlice>],
    (port, next): (u16, usize),
) -> Result<(String, u16), String> {
    let spec = service.spec.as_ref();
    match spec.and_then(|spec| spec.type_.as_deref()).unwrap_or_default() {
        "ClusterIP" | "NodePort" | "LoadBalancer" => {}
        "ExternalName" => {
            let outside = spec.and_then(|spec| spec.external_name.clone());
            return Ok((outside.unwrap_or_default(), port));
        }
        other => return Err(format!("unsupported service type {other:?}")),
    }
    let mut ports = spec
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default()
        .iter();
    let found = ports.find(|one| one.port == i32::from(port));
    let found = found.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let found = found.name.as_deref().unwrap_or_default();
    let families = spec
        .and_then(|spec| spec.ip_families.as_deref())
        .unwrap_or_default();
    let preferred = families.first().map(String::as_str).unwrap_or_default();
    let endpoints = |is_preferred: bool| -> Vec<(String, u16)> {
        let slices = slices.iter();
        let slices = slices.filter(|slice| (slice.address_type == preferred) == is_preferred);
        slices.flat_map(|slice| ready(slice, found)).collect()
    };
    let mut endpoints = [endpoints(true), endpoints(false)].into_iter();
    let endpoints = endpoints.find(|endpoints| !endpoints.is_empty());
    let endpoints = endpoints.ok_or_else(|| format!("no endpoints available for service {name:?}"))?;
    Ok(endpoints[next % endpoints.len()].clone())
}

/// The ready endpoints of a slice, at its port of this name.
fn ready(slice: &EndpointSlice, name: &str) -> Vec<(String, u16)> {
    let mut ports = slice.ports.iter().flatten();
    let named = |one: &&EndpointPort| one.name.as_deref().unwrap_or_default() == name;
    let port = ports.find(named).and_then(|one| u16::try_from(one.port?).ok());
    let Some(port) = port else {
        return Vec::new();
    };
    let ready = slice.endpoints.iter().flatten().filter(|one| plan::is_ready(one));
    ready
        .filter_map(|one| Some((one.addresses.first()?.clone(), port)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(spec: Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "api"}, "spec": spec})).unwrap()
    }

    fn slice(family: &str, endpoints: Value) -> Arc<EndpointSlice> {
        let ports = json!([{"name": "web", "port": 6443}, {"name": "other", "port": 1}]);
        let slice = json!({"metadata": {}, "addressType": family, "endpoints": endpoints, "ports": ports});
        Arc::new(serde_json::from_value(slice).unwrap())
    }

    fn inside() -> Value {
        json!({"type": "ClusterIP", "ipFamilies": ["IPv4"], "ports": [{"name": "web", "port": 443}]})
    }

    #[track_caller]
    fn check(spec: Value, slices: &[Arc<EndpointSlice>], port: u16, expected: &[Result<&str, &str>]) {
        for (next, expected) in expected.iter().enumerate() {
            let found = resolve("api", &service(spec.clone()), slices, (port, next));
            let found = found.map(|(host, port)| format!("{host} {port}"));
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned));
        }
    }

    #[test]
    fn ready_endpoints_take_turns_those_of_the_first_family_before_others() {
        let four = slice(
            "IPv4",
            json!([
                {"addresses": ["10.0.0.1"]},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": true}},
            ]),
        );
        let six = slice("IPv6", json!([{"addresses": ["fd00::1"]}]));
        let both = [six.clone(), four];
        let turns = [Ok("10.0.0.1 6443"), Ok("10.0.0.3 6443"), Ok("10.0.0.1 6443")];
        check(inside(), &both, 443, &turns);
        check(inside(), &[six], 443, &[Ok("fd00::1 6443")]);
    }

    #[test]
    fn an_external_name_is_an_endpoint() {
        let outside = json!({"type": "ExternalName", "externalName": "api.example.org"});
        check(outside, &[], 8443, &[Ok("api.example.org 8443")]);
    }

    #[test]
    fn a_service_without_an_endpoint_is_an_error() {
        let no_endpoints = Err(r#"no endpoints available for service "api""#);
        check(inside(), &[], 443, &[no_endpoints]);
        check(inside(), &[slice("IPv4", json!([]))], 443, &[no_endpoints]);
        check(
            inside(),
            &[],
            80,
            &[Err(r#"no service port 80 found for service "api""#)],
        );
        check(
            json!({"type": "Odd"}),
            &[],
            443,
            &[Err(r#"unsupported service type "Odd""#)],
        );
    }
}
