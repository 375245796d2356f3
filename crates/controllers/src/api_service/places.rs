//! Where a service is: one of its ready endpoints, or the name outside the cluster that it stands for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use setpoint_api::Key;
use setpoint_runtime::{Caches, Lister, Object};

use super::{SERVICE_NAME, plan};

/// Finds the places of services in the caches.
pub struct Places {
    services: Lister<Service>,
    slices: Lister<EndpointSlice>,
    /// Endpoints take turns.
    turn: AtomicUsize,
}

impl Places {
    /// Nothing if services or their endpoints are not served.
    pub fn new(caches: &dyn Caches) -> Option<Self> {
        Some(Self {
            services: Lister::new(caches.cache(&Service::resource().group_resource())?),
            slices: Lister::new(caches.cache(&EndpointSlice::resource().group_resource())?),
            turn: AtomicUsize::default(),
        })
    }

    /// A host and a port that lead to the service, or why there is none.
    pub fn find(&self, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String> {
        let service = self.services.find(&Key::new(namespace, name));
        let service = service.ok_or_else(|| format!("service {name:?} not found"))?;
        let service = service.shared().map_err(|status| status.to_string())?;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        place(name, &service, &self.slices_of(namespace, name), (port, turn))
    }

    fn slices_of(&self, namespace: &str, name: &str) -> Vec<Arc<EndpointSlice>> {
        let slices = self.slices.in_namespace(namespace).into_iter();
        let own = slices.filter(|slice| slice.label(SERVICE_NAME) == Some(name));
        own.filter_map(|slice| slice.shared().ok()).collect()
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").finish_non_exhaustive()
    }
}

/// The place of a service, another one each turn.
fn place(
    name: &str,
    service: &Service,
    slices: &[Arc<EndpointSlice>],
    (port, turn): (u16, usize),
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
    let places = |is_preferred: bool| -> Vec<(String, u16)> {
        let slices = slices.iter();
        let slices = slices.filter(|slice| (slice.address_type == preferred) == is_preferred);
        slices.flat_map(|slice| ready(slice, found)).collect()
    };
    let mut places = [places(true), places(false)].into_iter();
    let places = places.find(|places| !places.is_empty());
    let places = places.ok_or_else(|| format!("no endpoints available for service {name:?}"))?;
    Ok(places[turn % places.len()].clone())
}

/// The ready endpoints of a slice at its port of this name.
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
        for (turn, expected) in expected.iter().enumerate() {
            let found = place("api", &service(spec.clone()), slices, (port, turn));
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
    fn a_name_outside_the_cluster_is_a_place() {
        let outside = json!({"type": "ExternalName", "externalName": "api.example.org"});
        check(outside, &[], 8443, &[Ok("api.example.org 8443")]);
    }

    #[test]
    fn what_leads_nowhere_says_so() {
        let nobody = Err(r#"no endpoints available for service "api""#);
        check(inside(), &[], 443, &[nobody]);
        check(inside(), &[slice("IPv4", json!([]))], 443, &[nobody]);
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
