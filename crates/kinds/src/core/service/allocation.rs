//! Inputs of cluster IP and node port allocation, computed before anything is allocated.
//!
//! Admission calls [`keep_allocated`], then [`default_ip_families`], then allocates an address of each family in
//! `spec.ipFamilies` that `spec.clusterIPs` lacks, and the node ports. All of this precedes validation, which sees
//! what will be stored.

use std::collections::HashMap;

use setpoint_api::field::{Errors, FieldError};
use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, Strategy, ip, shape_of};

use super::update::{has_health_check_port, has_node_ports, node_ports};
use super::{NO_ADDRESS, Service, families};

const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

/// Copies allocated addresses and ports that an update omits, and makes `clusterIP` and `clusterIPs` consistent.
pub fn keep_allocated(service: &mut Tree, old: Option<&Tree>) {
    let null = Tree::Null;
    let spec = service.child(fields::SPEC);
    let Some(old) = old else {
        let cluster_ip = text(spec, fields::CLUSTER_IP).to_owned();
        if !cluster_ip.is_empty() && list(spec, fields::CLUSTER_IPS).is_empty() {
            set_list(spec, fields::CLUSTER_IPS, &[cluster_ip.as_str()]);
        }
        return;
    };
    let old = old.get(fields::SPEC).unwrap_or(&null);
    if text(spec, fields::TYPE) != "ExternalName" && text(old, fields::TYPE) != "ExternalName" {
        keep_if_unset(spec, old, fields::CLUSTER_IP);
        keep_if_unset(spec, old, fields::CLUSTER_IPS);
    }
    if has_node_ports(text(spec, fields::TYPE)) && has_node_ports(text(old, fields::TYPE)) {
        keep_node_ports(spec, old);
    }
    if has_health_check_port(spec) && has_health_check_port(old) {
        keep_if_unset(spec, old, fields::HEALTH_CHECK_NODE_PORT);
    }
    sync_cluster_ips(spec, old);
}

/// Sets the IP families and the policy of a service, given the cluster's families, the default one first. Errors are
/// returned to the API caller.
pub fn default_ip_families(
    service: &mut Tree,
    old: Option<&Tree>,
    cluster: &[&str],
) -> Result<(), Vec<FieldError>> {
    let null = Tree::Null;
    let old_spec = old.map(|old| old.get(fields::SPEC).unwrap_or(&null));
    let spec = service.child(fields::SPEC);
    if text(spec, fields::TYPE) == "ExternalName"
        || old_spec.is_some_and(|old| is_unchanged_prefer_dual_stack(spec, old))
    {
        return Ok(());
    }
    default_policy(spec, old_spec);
    let errors = Errors::default();
    validate_families(service, old, &errors);
    into_result(&errors)?;
    let spec = service.child(fields::SPEC);
    if let Some(old) = old_spec {
        release_secondary(spec, old, &errors);
    }
    validate_policy(spec, &errors);
    infer_families(spec, cluster, &errors);
    into_result(&errors)?;
    if text(spec, fields::CLUSTER_IP) == NO_ADDRESS && spec.get(fields::SELECTOR).is_none() {
        default_headless_families(spec, cluster);
        return Ok(());
    }
    validate_cluster_families(spec, cluster, &errors);
    into_result(&errors)?;
    default_families(spec, cluster);
    Ok(())
}

fn into_result(errors: &Errors) -> Result<(), Vec<FieldError>> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(errors.clone().into_vec())
}

// === kept allocations ===

/// Ports of the same name keep their node ports, unless another port uses them.
fn keep_node_ports(spec: &mut Tree, old: &Tree) {
    let taken = &node_ports(spec) & &node_ports(old);
    // Of two ports with the same name the last one counts.
    let before = old.items(fields::PORTS).iter();
    let before: HashMap<&str, i64> = before
        .map(|port| (text(port, fields::NAME), number(port, fields::NODE_PORT)))
        .collect();
    for port in spec.items_mut(fields::PORTS) {
        if number(port, fields::NODE_PORT) != 0 {
            continue;
        }
        let before = before.get(text(port, fields::NAME)).copied().unwrap_or_default();
        if before != 0 && !taken.contains(&before) {
            port.set(&[fields::NODE_PORT], before);
        }
    }
}

/// Older clients set only `clusterIP`: if they change it, `clusterIPs` follows.
fn sync_cluster_ips(spec: &mut Tree, old: &Tree) {
    let (cluster_ip, before) = (
        text(spec, fields::CLUSTER_IP).to_owned(),
        text(old, fields::CLUSTER_IP),
    );
    if cluster_ip == before {
        keep_if_unset(spec, old, fields::CLUSTER_IPS);
    } else if list(spec, fields::CLUSTER_IPS) == list(old, fields::CLUSTER_IPS) {
        if cluster_ip.is_empty() {
            spec.take(&[fields::CLUSTER_IPS]);
        } else {
            set_list(spec, fields::CLUSTER_IPS, &[cluster_ip.as_str()]);
        }
    }
}

fn keep_if_unset(spec: &mut Tree, old: &Tree, field: &str) {
    if let Some(before) = old.get(field)
        && spec.get(field).is_none()
    {
        spec.set(&[field], before.clone());
    }
}

// === families ===

/// A `PreferDualStack` service is not upgraded by an update that does not change its families.
fn is_unchanged_prefer_dual_stack(spec: &Tree, old: &Tree) -> bool {
    let same = |field| list(spec, field) == list(old, field);
    text(spec, fields::TYPE) == text(old, fields::TYPE)
        && text(spec, fields::IP_FAMILY_POLICY) == PREFER
        && matches!(text(old, fields::IP_FAMILY_POLICY), "" | PREFER)
        && same(fields::CLUSTER_IPS)
        && same(fields::IP_FAMILIES)
}

fn default_policy(spec: &mut Tree, old: Option<&Tree>) {
    if !text(spec, fields::IP_FAMILY_POLICY).is_empty() {
        return;
    }
    let before = old
        .map(|old| text(old, fields::IP_FAMILY_POLICY))
        .unwrap_or_default();
    let headless = text(spec, fields::CLUSTER_IP) == NO_ADDRESS && spec.get(fields::SELECTOR).is_none();
    let policy = match before {
        "" if headless => REQUIRE,
        "" => SINGLE,
        before => before,
    };
    spec.set(&[fields::IP_FAMILY_POLICY], policy.to_owned());
}

/// Validates addresses and families by the rules of [`super::families`].
fn validate_families(service: &Tree, old: Option<&Tree>, errors: &Errors) {
    let shape = shape_of(Service::KIND);
    let old = old.map(|old| FieldRef::read_only(old, shape).at(fields::SPEC));
    families::validate(
        &FieldRef::new(service, shape, errors).at(fields::SPEC),
        old.as_ref(),
    );
}

/// A downgrade to one family releases the second address; any other update must not lose one.
fn release_secondary(spec: &mut Tree, old: &Tree, errors: &Errors) {
    let fields = [
        (
            fields::CLUSTER_IPS,
            "must be 'SingleStack' to release the secondary cluster IP",
        ),
        (
            fields::IP_FAMILIES,
            "must be 'SingleStack' to release the secondary IP family",
        ),
    ];
    let single = text(spec, fields::IP_FAMILY_POLICY) == SINGLE;
    for (field, detail) in fields {
        let (new, before) = (list(spec, field).len(), list(old, field).len());
        if single && new > 1 && list(spec, field) == list(old, field) {
            let first = list(spec, field)[0].clone();
            set_list(spec, field, &[first.as_str()]);
        } else if !single && new > 0 && new < before {
            report_policy(spec, errors, detail);
        }
    }
}

fn validate_policy(spec: &Tree, errors: &Errors) {
    let fields = [
        (fields::CLUSTER_IPS, "cluster IPs"),
        (fields::IP_FAMILIES, "IP families"),
    ];
    for (field, words) in fields {
        if text(spec, fields::IP_FAMILY_POLICY) == SINGLE && list(spec, field).len() == 2 {
            let detail = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {words} are specified"
            );
            report_policy(spec, errors, &detail);
        }
    }
}

fn report_policy(spec: &Tree, errors: &Errors, detail: &str) {
    let field = errors.at(fields::SPEC).at(fields::IP_FAMILY_POLICY);
    field.invalid(text(spec, fields::IP_FAMILY_POLICY), detail);
}

/// Sets the families of the addresses that the caller chose.
fn infer_families(spec: &mut Tree, cluster: &[&str], errors: &Errors) {
    let addresses = list(spec, fields::CLUSTER_IPS);
    let mut families = list(spec, fields::IP_FAMILIES);
    for (at, address) in addresses.iter().enumerate() {
        if address == NO_ADDRESS {
            break;
        }
        let family = if ip::is_v6(address) { "IPv6" } else { "IPv4" };
        if at < families.len() {
            continue;
        }
        if cluster.contains(&family) {
            families.push(family.to_owned());
        } else {
            let field = errors.at(fields::SPEC).at(fields::CLUSTER_IPS).index(at);
            field.invalid(&addresses, &format!("{family} is not configured on this cluster"));
        }
    }
    let families: Vec<&str> = families.iter().map(String::as_str).collect();
    if !families.is_empty() {
        set_list(spec, fields::IP_FAMILIES, &families);
    }
}

fn validate_cluster_families(spec: &Tree, cluster: &[&str], errors: &Errors) {
    if text(spec, fields::IP_FAMILY_POLICY) == REQUIRE && cluster.len() < 2 {
        report_policy(
            spec,
            errors,
            "this cluster is not configured for dual-stack services",
        );
    }
    for (at, family) in list(spec, fields::IP_FAMILIES).iter().enumerate() {
        if !cluster.contains(&family.as_str()) {
            let field = errors.at(fields::SPEC).at(fields::IP_FAMILIES).index(at);
            field.invalid(family, "not configured on this cluster");
        }
    }
}

/// A headless service may use a family that the cluster does not have.
fn default_headless_families(spec: &mut Tree, cluster: &[&str]) {
    default_first_family(spec, cluster);
    if text(spec, fields::IP_FAMILY_POLICY) != SINGLE {
        add_second_family(spec);
    }
}

fn default_families(spec: &mut Tree, cluster: &[&str]) {
    default_first_family(spec, cluster);
    if text(spec, fields::IP_FAMILY_POLICY) != SINGLE && cluster.len() == 2 {
        add_second_family(spec);
    }
}

fn default_first_family(spec: &mut Tree, cluster: &[&str]) {
    if let Some(default) = cluster.first()
        && list(spec, fields::IP_FAMILIES).is_empty()
    {
        set_list(spec, fields::IP_FAMILIES, &[default]);
    }
}

fn add_second_family(spec: &mut Tree) {
    let families = list(spec, fields::IP_FAMILIES);
    if let [only] = families.as_slice() {
        let other = if only == "IPv4" { "IPv6" } else { "IPv4" };
        set_list(spec, fields::IP_FAMILIES, &[only.as_str(), other]);
    }
}

// === reading and writing ===

fn text<'a>(spec: &'a Tree, field: &str) -> &'a str {
    spec.str_at(&[field]).unwrap_or_default()
}

fn number(port: &Tree, field: &str) -> i64 {
    port.get(field).and_then(Tree::as_i64).unwrap_or_default()
}

fn list(spec: &Tree, field: &str) -> Vec<String> {
    let items = spec.items(field).iter();
    items.filter_map(Tree::as_str).map(str::to_owned).collect()
}

fn set_list(spec: &mut Tree, field: &str, texts: &[&str]) {
    let items: Vec<Tree> = texts.iter().map(|text| Tree::from(*text)).collect();
    spec.set(&[field], items);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: &str) -> Tree {
        let text = format!(r#"{{"spec":{spec}}}"#);
        setpoint_codec::json::parse(text.as_bytes()).unwrap()
    }

    #[track_caller]
    fn check(spec: &str, old: Option<&str>, cluster: &[&str], expected: &str) {
        let (mut service, old) = (service(spec), old.map(service));
        keep_allocated(&mut service, old.as_ref());
        let found = match default_ip_families(&mut service, old.as_ref(), cluster) {
            Ok(()) => {
                let spec = service.get("spec").unwrap();
                let part = |field| list(spec, field).join(",");
                format!("{} {}", part("ipFamilies"), part("clusterIPs"))
                    .trim()
                    .to_owned()
            }
            Err(errors) => errors[0].to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_service_is_of_the_default_family() {
        check("{}", None, &["IPv4"], "IPv4");
        check("{}", None, &["IPv6", "IPv4"], "IPv6");
    }

    #[test]
    fn a_chosen_address_sets_its_ip_family() {
        check(r#"{"clusterIP":"10.0.0.5"}"#, None, &["IPv4"], "IPv4 10.0.0.5");
        check(
            r#"{"clusterIP":"fd00::1"}"#,
            None,
            &["IPv4"],
            r#"spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster"#,
        );
    }

    #[test]
    fn both_families_need_a_cluster_that_has_both() {
        let wants = r#"{"ipFamilyPolicy":"RequireDualStack"}"#;
        check(wants, None, &["IPv4", "IPv6"], "IPv4,IPv6");
        check(
            wants,
            None,
            &["IPv4"],
            r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
        );
        check(r#"{"ipFamilyPolicy":"PreferDualStack"}"#, None, &["IPv4"], "IPv4");
    }

    #[test]
    fn headless_services_without_selector_are_dual_stack() {
        check(r#"{"clusterIP":"None"}"#, None, &["IPv4"], "IPv4,IPv6 None");
        check(
            r#"{"clusterIP":"None","selector":{"a":"b"}}"#,
            None,
            &["IPv4"],
            "IPv4 None",
        );
    }

    #[test]
    fn an_update_keeps_the_addresses_it_leaves_out() {
        let old = r#"{"clusterIP":"10.0.0.5","clusterIPs":["10.0.0.5"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack"}"#;
        check("{}", Some(old), &["IPv4"], "IPv4 10.0.0.5");
        check(r#"{"clusterIP":"None"}"#, Some(old), &["IPv4"], "IPv4 None");
    }

    #[test]
    fn a_downgrade_to_one_family_releases_the_second_address() {
        let both = r#"{"clusterIP":"10.0.0.5","clusterIPs":["10.0.0.5","fd00::1"],"ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"RequireDualStack"}"#;
        let single = both.replace("RequireDualStack", "SingleStack");
        check(&single, Some(both), &["IPv4", "IPv6"], "IPv4 10.0.0.5");
        check(
            r#"{"clusterIP":"10.0.0.5","clusterIPs":["10.0.0.5"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"RequireDualStack"}"#,
            Some(both),
            &["IPv4", "IPv6"],
            r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be 'SingleStack' to release the secondary cluster IP"#,
        );
    }

    #[test]
    fn ports_of_the_same_name_keep_their_node_ports() {
        let old = service(
            r#"{"type":"NodePort","ports":[{"name":"a","nodePort":30001},{"name":"b","nodePort":30002}]}"#,
        );
        let mut new = service(r#"{"type":"NodePort","ports":[{"name":"b"},{"name":"a","nodePort":30002}]}"#);
        keep_allocated(&mut new, Some(&old));
        let ports: Vec<i64> = new
            .get("spec")
            .unwrap()
            .items("ports")
            .iter()
            .map(|port| number(port, "nodePort"))
            .collect();
        assert_eq!(ports, [0, 30002]);
    }
}
