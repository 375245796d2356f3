//! IPAddress: records which object uses an IP address; its name is the address.

use setpoint_api::table::Cell;

use crate::columns::{self, Column, NONE};
use crate::field::FieldRef;
use crate::shared::name;
use crate::strategy::{NameRule, Names, Rules, Scope, Strategy};

#[derive(Debug)]
pub struct IpAddress;

impl Strategy for IpAddress {
    const KIND: (&'static str, &'static str, &'static str) = ("networking.k8s.io", "v1", "IPAddress");
    const NAMES: Names = Names::new("ipaddresses", "ipaddress").short(&["ip"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("ParentRef", |address, _| {
            Cell::from(parent(&address.at("spec").at("parentRef")))
        })
        .description("The object that uses the address."),
    ];
    const RULES: Rules = Rules {
        name: NameRule::Address,
        ..Rules::DEFAULT
    };

    fn validate(address: &FieldRef<'_>) {
        let parent = address.at("spec").at("parentRef");
        if !parent.at("group").is_empty() {
            name::check(&parent.at("group"), name::check_dns1123_subdomain);
        }
        for field in ["resource", "name", "namespace"] {
            if !parent.at(field).is_empty() {
                name::check(&parent.at(field), name::path_segment);
            }
        }
        if !parent.is_set() {
            parent.required("");
            return;
        }
        parent.at("resource").require();
        parent.at("name").require();
    }

    fn validate_update(address: &FieldRef<'_>, old: &FieldRef<'_>) {
        let parent = address.at("spec").at("parentRef");
        parent.declarative_immutable(&old.at("spec").at("parentRef"));
    }
}

fn parent(parent: &FieldRef<'_>) -> String {
    if !parent.is_set() {
        return NONE.to_owned();
    }
    let resource = parent.at("resource").str().to_lowercase();
    let mut text = match parent.at("group").str() {
        "" => resource,
        group => format!("{resource}.{}", group.to_lowercase()),
    };
    for part in [parent.at("namespace").str(), parent.at("name").str()] {
        if !part.is_empty() {
            text.push('/');
            text.push_str(part);
        }
    }
    text
}
