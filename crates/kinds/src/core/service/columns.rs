//! Printer columns of a service.

use setpoint_api::table::Cell;
use setpoint_schema::fields;
use setpoint_strategy::FieldRef;
use setpoint_strategy::columns::{self, Column, NONE, UNKNOWN};

use super::{ports, spec};
use crate::networking::ingress;

pub(super) const COLUMNS: &[Column] = &[
    columns::NAME,
    Column::text("Type", |service, _| {
        columns::or_empty(&spec(service).at(fields::TYPE))
    })
    .description("The type of the service."),
    Column::text("Cluster-IP", |service, _| {
        let address = spec(service).at(fields::CLUSTER_IPS).strs().next();
        Cell::from(address.unwrap_or(NONE))
    })
    .description("The address inside the cluster."),
    Column::text("External-IP", |service, _| Cell::from(external(service)))
        .description("The external addresses."),
    Column::text("Port(s)", |service, _| {
        Cell::from(ports::print(&spec(service).at(fields::PORTS)))
    })
    .description("The ports."),
    columns::AGE,
    Column::text("Selector", |service, _| {
        Cell::from(columns::labels(&spec(service).at(fields::SELECTOR)))
    })
    .wide()
    .description("The label selector of the pods."),
];

fn external(service: &FieldRef<'_>) -> String {
    let spec = spec(service);
    let mut addresses: Vec<String> = spec.at(fields::EXTERNAL_IPS).strs().map(str::to_owned).collect();
    match spec.at(fields::TYPE).str() {
        "ClusterIP" | "NodePort" if addresses.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => addresses.join(","),
        "LoadBalancer" => {
            let balancer = ingress::addresses(&service.at(fields::STATUS));
            if !balancer.is_empty() {
                addresses.insert(0, balancer);
            }
            match addresses.is_empty() {
                true => "<pending>".to_owned(),
                false => addresses.join(","),
            }
        }
        "ExternalName" => spec.at(fields::EXTERNAL_NAME).str().to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}
