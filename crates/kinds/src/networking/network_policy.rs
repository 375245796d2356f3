//! NetworkPolicy: which pods may talk to which others.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::{self, Column};
use crate::shared::{ip, label_selector, name};
use crate::strategy::{Names, Rules, Strategy};

const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];
const POLICY_TYPES: &[&str] = &["Ingress", "Egress"];
/// The rules of each direction, and where they name the other side.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

#[derive(Debug)]
pub struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    const KIND: (&'static str, &'static str, &'static str) = ("networking.k8s.io", "v1", "NetworkPolicy");
    const NAMES: Names = Names::new("networkpolicies", "networkpolicy").short(&["netpol"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Pod-Selector", |policy, _| {
            Cell::from(label_selector::print(&policy.at("spec").at("podSelector")))
        })
        .about("Which pods it is about."),
        columns::AGE,
    ];
    const RULES: Rules = Rules {
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(policy: &mut Tree) {
        let spec = policy.child("spec");
        for (direction, _) in DIRECTIONS {
            for rule in spec.items_mut(direction) {
                rule.items_mut("ports")
                    .for_each(|port| port.fill("protocol", "TCP"));
            }
        }
        if spec.items("policyTypes").is_empty() {
            let count = if spec.items("egress").is_empty() { 1 } else { 2 };
            let types = POLICY_TYPES[..count].iter().map(|word| Tree::from(*word));
            spec.set(&["policyTypes"], types.collect::<Vec<_>>());
        }
    }

    fn validate(policy: &At<'_>) {
        validate_spec(&policy.at("spec"), &[]);
        require_ranges(&policy.at("spec"));
    }

    fn validate_again(policy: &At<'_>, old: &At<'_>) {
        validate_spec(&policy.at("spec"), &ranges(&old.at("spec")));
        require_ranges(&policy.at("spec"));
    }

    fn warnings(policy: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
        let mut warnings = Vec::new();
        for block in blocks(&policy.at("spec")) {
            let texts = std::iter::once(block.at("cidr")).chain(block.at("except").items());
            for text in texts {
                warnings.extend(ip::warn_range(&text.errors().path(), text.str()));
            }
        }
        warnings
    }
}

/// `accepted` are the ranges that were there before, which nobody asks again how they are written.
fn validate_spec(spec: &At<'_>, accepted: &[&str]) {
    label_selector::validate(&spec.at("podSelector"));
    for (direction, others) in DIRECTIONS {
        for rule in spec.at(direction).items() {
            rule.at("ports").items().for_each(|port| validate_port(&port));
            for peer in rule.at(others).items() {
                validate_peer(&peer, accepted);
            }
        }
    }
    let types = spec.at("policyTypes");
    if types.len() > POLICY_TYPES.len() {
        types.invalid("may not specify more than two policyTypes");
        return;
    }
    for word in types.items() {
        if !POLICY_TYPES.contains(&word.str()) {
            word.not_supported(POLICY_TYPES);
        }
    }
}

fn validate_port(port: &At<'_>) {
    let (protocol, number, end) = (port.at("protocol"), port.at("port"), port.at("endPort"));
    if protocol.is_set() && !PROTOCOLS.contains(&protocol.str()) {
        protocol.not_supported(PROTOCOLS);
    }
    let said = end.is_set();
    match (number.find_int(), number.find_str()) {
        (Some(first), _) => {
            number.within(1, 65535);
            if said && end.int() < first {
                end.invalid("must be greater than or equal to `port`");
            }
            if said {
                end.within(1, 65535);
            }
        }
        (None, Some(_)) => {
            if said {
                end.invalid("may not be specified when `port` is non-numeric");
            }
            name::check(&number, name::port);
        }
        (None, None) if said => end.invalid("may not be specified when `port` is not specified"),
        (None, None) => {}
    }
}

fn validate_peer(peer: &At<'_>, accepted: &[&str]) {
    let selectors = [peer.at("podSelector"), peer.at("namespaceSelector")];
    let selecting = selectors.iter().filter(|selector| selector.is_set());
    let count = selecting
        .inspect(|selector| label_selector::validate(selector))
        .count();
    let block = peer.at("ipBlock");
    if block.is_set() {
        validate_block(&block, accepted);
    }
    match (count, block.is_set()) {
        (0, false) => peer.required("must specify a peer"),
        (1.., true) => peer.forbidden("may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn validate_block(block: &At<'_>, accepted: &[&str]) {
    let whole = block.at("cidr");
    if whole.is_empty() {
        return;
    }
    check_range(&whole, accepted);
    let Some(range) = ip::parse_range(whole.str()) else {
        return;
    };
    for except in block.at("except").items() {
        check_range(&except, accepted);
        let part = ip::parse_range(except.str());
        if part.is_some_and(|part| !range.contains(part.first()) || range.bits >= part.bits) {
            except.invalid("must be a strict subset of `cidr`");
        }
    }
}

fn check_range(range: &At<'_>, accepted: &[&str]) {
    if !accepted.contains(&range.str()) {
        ip::check_range(range.str(), range.errors());
    }
}

/// The shape says that a block has a range, which is checked last.
fn require_ranges(spec: &At<'_>) {
    for block in blocks(spec) {
        block.at("cidr").require();
    }
}

fn ranges<'a>(spec: &At<'a>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for block in blocks(spec) {
        found.push(block.at("cidr").str());
        found.extend(block.at("except").strs());
    }
    found
}

fn blocks<'a>(spec: &At<'a>) -> Vec<At<'a>> {
    let mut blocks = Vec::new();
    for (direction, others) in DIRECTIONS {
        for rule in spec.at(direction).items() {
            let peers = rule.at(others);
            blocks.extend(peers.items().map(|peer| peer.at("ipBlock")));
        }
    }
    blocks.retain(At::is_set);
    blocks
}
