//! NetworkPolicy: which pods may exchange traffic with which peers.

use std::collections::HashSet;

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, ip, label_selector, name};

const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];
const POLICY_TYPES: &[&str] = &["Ingress", "Egress"];
/// The rules of each direction, and the field of their peers.
const DIRECTIONS: [(&str, &str); 2] = [(fields::INGRESS, fields::FROM), (fields::EGRESS, fields::TO)];

#[derive(Debug)]
pub struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    const KIND: (&'static str, &'static str, &'static str) = ("networking.k8s.io", "v1", "NetworkPolicy");
    const NAMES: Names = Names::new("networkpolicies", "networkpolicy").short(&["netpol"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Pod-Selector", |policy, _| {
            Cell::from(label_selector::print(
                &policy.at(fields::SPEC).at(fields::POD_SELECTOR),
            ))
        })
        .description("The pod selector."),
        columns::AGE,
    ];
    const RULES: Rules = Rules::DEFAULT.tracks_generation();

    fn default_fields(policy: &mut Tree) {
        let spec = policy.child(fields::SPEC);
        for (direction, _) in DIRECTIONS {
            for rule in spec.items_mut(direction) {
                rule.items_mut(fields::PORTS)
                    .for_each(|port| port.set_default(fields::PROTOCOL, "TCP"));
            }
        }
        if spec.items(fields::POLICY_TYPES).is_empty() {
            let count = if spec.items(fields::EGRESS).is_empty() {
                1
            } else {
                2
            };
            let types = POLICY_TYPES[..count].iter().map(|word| Tree::from(*word));
            spec.set(&[fields::POLICY_TYPES], types.collect::<Vec<_>>());
        }
    }

    fn validate(policy: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_spec(&policy.at(fields::SPEC), &HashSet::new());
        require_cidrs(&policy.at(fields::SPEC));
    }

    fn validate_for_update(policy: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_spec(&policy.at(fields::SPEC), &cidrs(&old.at(fields::SPEC)));
        require_cidrs(&policy.at(fields::SPEC));
    }

    fn warnings(policy: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        let mut warnings = Vec::new();
        for block in ip_blocks(&policy.at(fields::SPEC)) {
            let texts = std::iter::once(block.at(fields::CIDR)).chain(block.at(fields::EXCEPT).items());
            for text in texts {
                warnings.extend(ip::warn_cidr(&text.errors().path(), text.str()));
            }
        }
        warnings
    }
}

/// `accepted` are the CIDRs of the old object, whose notation is not checked again.
fn validate_spec(spec: &FieldRef<'_>, accepted: &HashSet<&str>) {
    label_selector::validate(&spec.at(fields::POD_SELECTOR));
    for (direction, others) in DIRECTIONS {
        for rule in spec.at(direction).items() {
            rule.at(fields::PORTS)
                .items()
                .for_each(|port| validate_port(&port));
            for peer in rule.at(others).items() {
                validate_peer(&peer, accepted);
            }
        }
    }
    let types = spec.at(fields::POLICY_TYPES);
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

fn validate_port(port: &FieldRef<'_>) {
    let (protocol, number, end) = (
        port.at(fields::PROTOCOL),
        port.at(fields::PORT),
        port.at(fields::END_PORT),
    );
    if protocol.is_set() && !PROTOCOLS.contains(&protocol.str()) {
        protocol.not_supported(PROTOCOLS);
    }
    let has_end = end.is_set();
    match (number.find_int(), number.find_str()) {
        (Some(first), _) => {
            number.in_range(1, 65535);
            if has_end && end.int() < first {
                end.invalid("must be greater than or equal to `port`");
            }
            if has_end {
                end.in_range(1, 65535);
            }
        }
        (None, Some(_)) => {
            if has_end {
                end.invalid("may not be specified when `port` is non-numeric");
            }
            name::check(&number, name::port);
        }
        (None, None) if has_end => end.invalid("may not be specified when `port` is not specified"),
        (None, None) => {}
    }
}

fn validate_peer(peer: &FieldRef<'_>, accepted: &HashSet<&str>) {
    let selectors = [peer.at(fields::POD_SELECTOR), peer.at(fields::NAMESPACE_SELECTOR)];
    let selecting = selectors.iter().filter(|selector| selector.is_set());
    let count = selecting
        .inspect(|selector| label_selector::validate(selector))
        .count();
    let block = peer.at(fields::IP_BLOCK);
    if block.is_set() {
        validate_block(&block, accepted);
    }
    match (count, block.is_set()) {
        (0, false) => peer.required("must specify a peer"),
        (1.., true) => peer.forbidden("may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn validate_block(block: &FieldRef<'_>, accepted: &HashSet<&str>) {
    let whole = block.at(fields::CIDR);
    if whole.is_empty() {
        return;
    }
    check_cidr(&whole, accepted);
    let Some(cidr) = ip::parse_cidr(whole.str()) else {
        return;
    };
    for except in block.at(fields::EXCEPT).items() {
        check_cidr(&except, accepted);
        let exception = ip::parse_cidr(except.str());
        if exception.is_some_and(|exception| !cidr.contains(exception.first()) || cidr.bits >= exception.bits)
        {
            except.invalid("must be a strict subset of `cidr`");
        }
    }
}

fn check_cidr(cidr: &FieldRef<'_>, accepted: &HashSet<&str>) {
    if !accepted.contains(cidr.str()) {
        ip::check_cidr(cidr.str(), cidr.errors());
    }
}

/// An `ipBlock` requires a CIDR; declarative validation checks this last.
fn require_cidrs(spec: &FieldRef<'_>) {
    for block in ip_blocks(spec) {
        block.at(fields::CIDR).require();
    }
}

fn cidrs<'a>(spec: &FieldRef<'a>) -> HashSet<&'a str> {
    let mut found = HashSet::new();
    for block in ip_blocks(spec) {
        found.insert(block.at(fields::CIDR).str());
        found.extend(block.at(fields::EXCEPT).strs());
    }
    found
}

fn ip_blocks<'a>(spec: &FieldRef<'a>) -> Vec<FieldRef<'a>> {
    let mut blocks = Vec::new();
    for (direction, others) in DIRECTIONS {
        for rule in spec.at(direction).items() {
            let peers = rule.at(others);
            blocks.extend(peers.items().map(|peer| peer.at(fields::IP_BLOCK)));
        }
    }
    blocks.retain(FieldRef::is_set);
    blocks
}
