//! NetworkPolicy: which pods may exchange traffic with which peers.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::shared::{ip, label_selector, name};
use crate::strategy::{Names, Rules, Strategy};

const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];
const POLICY_TYPES: &[&str] = &["Ingress", "Egress"];
/// The rules of each direction, and the field of their peers.
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
        .description("The pod selector."),
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
                    .for_each(|port| port.set_default("protocol", "TCP"));
            }
        }
        if spec.items("policyTypes").is_empty() {
            let count = if spec.items("egress").is_empty() { 1 } else { 2 };
            let types = POLICY_TYPES[..count].iter().map(|word| Tree::from(*word));
            spec.set(&["policyTypes"], types.collect::<Vec<_>>());
        }
    }

    fn validate(policy: &FieldRef<'_>) {
        validate_spec(&policy.at("spec"), &[]);
        require_cidrs(&policy.at("spec"));
    }

    fn validate_for_update(policy: &FieldRef<'_>, old: &FieldRef<'_>) {
        validate_spec(&policy.at("spec"), &cidrs(&old.at("spec")));
        require_cidrs(&policy.at("spec"));
    }

    fn warnings(policy: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        let mut warnings = Vec::new();
        for block in ip_blocks(&policy.at("spec")) {
            let texts = std::iter::once(block.at("cidr")).chain(block.at("except").items());
            for text in texts {
                warnings.extend(ip::warn_cidr(&text.errors().path(), text.str()));
            }
        }
        warnings
    }
}

/// `accepted` are the CIDRs of the old object, whose notation is not checked again.
fn validate_spec(spec: &FieldRef<'_>, accepted: &[&str]) {
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

fn validate_port(port: &FieldRef<'_>) {
    let (protocol, number, end) = (port.at("protocol"), port.at("port"), port.at("endPort"));
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

fn validate_peer(peer: &FieldRef<'_>, accepted: &[&str]) {
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

fn validate_block(block: &FieldRef<'_>, accepted: &[&str]) {
    let whole = block.at("cidr");
    if whole.is_empty() {
        return;
    }
    check_cidr(&whole, accepted);
    let Some(cidr) = ip::parse_cidr(whole.str()) else {
        return;
    };
    for except in block.at("except").items() {
        check_cidr(&except, accepted);
        let exception = ip::parse_cidr(except.str());
        if exception.is_some_and(|exception| !cidr.contains(exception.first()) || cidr.bits >= exception.bits)
        {
            except.invalid("must be a strict subset of `cidr`");
        }
    }
}

fn check_cidr(cidr: &FieldRef<'_>, accepted: &[&str]) {
    if !accepted.contains(&cidr.str()) {
        ip::check_cidr(cidr.str(), cidr.errors());
    }
}

/// An `ipBlock` requires a CIDR; declarative validation checks this last.
fn require_cidrs(spec: &FieldRef<'_>) {
    for block in ip_blocks(spec) {
        block.at("cidr").require();
    }
}

fn cidrs<'a>(spec: &FieldRef<'a>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for block in ip_blocks(spec) {
        found.push(block.at("cidr").str());
        found.extend(block.at("except").strs());
    }
    found
}

fn ip_blocks<'a>(spec: &FieldRef<'a>) -> Vec<FieldRef<'a>> {
    let mut blocks = Vec::new();
    for (direction, others) in DIRECTIONS {
        for rule in spec.at(direction).items() {
            let peers = rule.at(others);
            blocks.extend(peers.items().map(|peer| peer.at("ipBlock")));
        }
    }
    blocks.retain(FieldRef::is_set);
    blocks
}
