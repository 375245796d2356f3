//! IPAddress: records which object uses an IP address; its name is the address.

use setpoint_api::table::Cell;
use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column, NONE};
use setpoint_strategy::{FieldRef, NameRule, Names, RequestFacts, Rules, Scope, Strategy, name};

#[derive(Debug)]
pub struct IpAddress;

impl Strategy for IpAddress {
    const KIND: (&'static str, &'static str, &'static str) = ("networking.k8s.io", "v1", "IPAddress");
    const NAMES: Names = Names::new("ipaddresses", "ipaddress").short(&["ip"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("ParentRef", |address, _| {
            Cell::from(parent(&address.at(fields::SPEC).at(fields::PARENT_REF)))
        })
        .description("The object that uses the address."),
    ];
    const RULES: Rules = Rules::DEFAULT.name(NameRule::Address);

    fn validate(address: &FieldRef<'_>, _facts: &RequestFacts) {
        let parent = address.at(fields::SPEC).at(fields::PARENT_REF);
        if !parent.at(fields::GROUP).is_empty() {
            name::check(&parent.at(fields::GROUP), name::check_dns1123_subdomain);
        }
        for field in [fields::RESOURCE, fields::NAME, fields::NAMESPACE] {
            if !parent.at(field).is_empty() {
                name::check(&parent.at(field), name::path_segment);
            }
        }
        if !parent.is_set() {
            parent.required("");
            return;
        }
        parent.at(fields::RESOURCE).require();
        parent.at(fields::NAME).require();
    }

    fn validate_update(address: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let parent = address.at(fields::SPEC).at(fields::PARENT_REF);
        parent.declarative_immutable(&old.at(fields::SPEC).at(fields::PARENT_REF));
    }
}

fn parent(parent: &FieldRef<'_>) -> String {
    if !parent.is_set() {
        return NONE.to_owned();
    }
    let resource = parent.at(fields::RESOURCE).str().to_lowercase();
    let mut text = match parent.at(fields::GROUP).str() {
        "" => resource,
        group => format!("{resource}.{}", group.to_lowercase()),
    };
    for part in [parent.at(fields::NAMESPACE).str(), parent.at(fields::NAME).str()] {
        if !part.is_empty() {
            text.push('/');
            text.push_str(part);
        }
    }
    text
}
