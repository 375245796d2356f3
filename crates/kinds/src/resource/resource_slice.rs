//! ResourceSlice: devices that a driver publishes, on one node or on several.

mod device;

use std::collections::HashSet;

use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldLabel, FieldRef, Names, RequestFacts, Rules, Scope, Strategy, name};

use super::{GROUP, format, taint};

const MAX_DEVICES: usize = 128;
/// Devices with taints, counters or lists are larger, so a slice may have fewer of them.
const MAX_LARGE_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
const NODE_SELECTION_FIELDS: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

#[derive(Debug)]
pub struct ResourceSlice;

impl Strategy for ResourceSlice {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "ResourceSlice");
    const NAMES: Names = Names::new("resourceslices", "resourceslice");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Node", |slice, _| {
            columns::or_empty(&slice.at(fields::SPEC).at(fields::NODE_NAME))
        })
        .description("The node of the devices."),
        Column::text("Driver", |slice, _| {
            columns::or_empty(&slice.at(fields::SPEC).at(fields::DRIVER))
        })
        .description("The driver."),
        Column::text("Pool", |slice, _| {
            columns::or_empty(&slice.at(fields::SPEC).at(fields::POOL).at(fields::NAME))
        })
        .description("The resource pool."),
        columns::AGE,
    ];
    const FIELDS: &'static [FieldLabel] = &[
        FieldLabel::new("spec.nodeName", &[&[fields::SPEC, fields::NODE_NAME]]),
        FieldLabel::new("spec.driver", &[&[fields::SPEC, fields::DRIVER]]),
        FieldLabel::new("spec.pool.name", &[&[fields::SPEC, fields::POOL, fields::NAME]]),
    ];
    const RULES: Rules = Rules::DEFAULT
        .tracks_generation()
        .returns_deleted()
        .bad_field_label_message(
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}",
        );

    fn default_for_request(slice: &mut Tree, facts: &RequestFacts) {
        default_times_added(slice, facts);
    }

    fn validate(slice: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_spec(&slice.at(fields::SPEC), &FieldRef::absent());
    }

    fn validate_for_update(slice: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_spec(&slice.at(fields::SPEC), &old.at(fields::SPEC));
    }
}

fn default_times_added(slice: &mut Tree, facts: &RequestFacts) {
    for device in slice.child(fields::SPEC).items_mut(fields::DEVICES) {
        for taint in device.items_mut(fields::TAINTS) {
            taint::default_time_added(taint, facts);
        }
    }
}

fn validate_spec(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    format::check_driver(&spec.at(fields::DRIVER));
    validate_pool(&spec.at(fields::POOL));
    if old.is_set() {
        spec.at(fields::POOL)
            .at(fields::NAME)
            .immutable(&old.at(fields::POOL).at(fields::NAME));
        spec.at(fields::DRIVER).immutable(&old.at(fields::DRIVER));
        spec.at(fields::NODE_NAME).immutable(&old.at(fields::NODE_NAME));
    }
    validate_nodes(spec);
    let (devices, counters) = (spec.at(fields::DEVICES), spec.at(fields::SHARED_COUNTERS));
    if devices.is_set() && counters.is_set() {
        spec.invalid_as("", "only one of `sharedCounters` or `devices` is allowed");
    }
    let big = devices.items().any(|device| device::is_large(&device));
    if format::check_max_items(&devices, if big { MAX_LARGE_DEVICES } else { MAX_DEVICES }) {
        let each = spec.at(fields::PER_DEVICE_NODE_SELECTION).bool();
        for device in devices.items() {
            device::validate(&device, each);
        }
        unique_names(&devices);
    }
    if format::check_max_items(&counters, MAX_COUNTER_SETS) {
        unique_names(&counters);
    }
    devices
        .items()
        .for_each(|device| device::validate_declarative(&device));
    for set in counters.items() {
        device::validate_declarative_counters(&set, fields::NAME);
    }
}

fn unique_names(list: &FieldRef<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for item in list.items() {
        let name = item.at(fields::NAME).str();
        if !seen.insert(name) {
            item.errors().duplicate(name);
        }
    }
}

fn validate_pool(pool: &FieldRef<'_>) {
    format::check_pool(&pool.at(fields::NAME));
    if pool.at(fields::RESOURCE_SLICE_COUNT).int() <= 0 {
        pool.at(fields::RESOURCE_SLICE_COUNT)
            .invalid("must be greater than zero");
    }
    if pool.at(fields::GENERATION).int() < 0 {
        pool.at(fields::GENERATION)
            .invalid("must be greater than or equal to zero");
    }
}

/// Exactly one of the node selection fields must be set.
fn validate_nodes(spec: &FieldRef<'_>) {
    let mut ways = Vec::new();
    let node = spec.at(fields::NODE_NAME);
    if node.is_set() && node.is_empty() {
        node.invalid("must be either unset or set to a non-empty string");
    } else if node.is_set() {
        ways.push("`nodeName`");
        name::check(&node, name::check_dns1123_subdomain);
    }
    let selector = spec.at(fields::NODE_SELECTOR);
    if selector.is_set() {
        ways.push("`nodeSelector`");
        let terms = selector.at(fields::NODE_SELECTOR_TERMS);
        if terms.len() != 1 {
            terms.invalid("must have exactly one node selector term");
        }
    }
    for (field, way) in [
        (fields::ALL_NODES, "`allNodes`"),
        (fields::PER_DEVICE_NODE_SELECTION, "`perDeviceNodeSelection`"),
    ] {
        match spec.at(field).find_bool() {
            Some(true) => ways.push(way),
            Some(false) => spec.at(field).invalid("must be either unset or set to true"),
            None => {}
        }
    }
    match ways.len() {
        0 => spec.required(NODE_SELECTION_FIELDS),
        1 => {}
        _ => spec.invalid_as(
            format!("{{{}}}", ways.join(", ")),
            &format!("{NODE_SELECTION_FIELDS}, but multiple fields are set"),
        ),
    }
}
