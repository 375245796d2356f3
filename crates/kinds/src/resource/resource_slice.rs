//! ResourceSlice: devices that a driver publishes, on one node or on several.

mod device;

use setpoint_schema::Tree;

use super::{GROUP, format, taint};
use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::shared::name;
use crate::strategy::{FieldLabel, Names, RequestFacts, Rules, Scope, Strategy};

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
            columns::or_empty(&slice.at("spec").at("nodeName"))
        })
        .description("The node of the devices."),
        Column::text("Driver", |slice, _| {
            columns::or_empty(&slice.at("spec").at("driver"))
        })
        .description("The driver."),
        Column::text("Pool", |slice, _| {
            columns::or_empty(&slice.at("spec").at("pool").at("name"))
        })
        .description("The resource pool."),
        columns::AGE,
    ];
    const FIELDS: &'static [FieldLabel] = &[
        FieldLabel::new("spec.nodeName", &[&["spec", "nodeName"]]),
        FieldLabel::new("spec.driver", &[&["spec", "driver"]]),
        FieldLabel::new("spec.pool.name", &[&["spec", "pool", "name"]]),
    ];
    const RULES: Rules = Rules {
        tracks_generation: true,
        returns_deleted: true,
        bad_field_label_message: "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}",
        ..Rules::DEFAULT
    };

    fn default_for_request(slice: &mut Tree, facts: &RequestFacts) {
        default_times_added(slice, facts);
    }

    fn validate(slice: &FieldRef<'_>) {
        validate_spec(&slice.at("spec"), &FieldRef::absent());
    }

    fn validate_for_update(slice: &FieldRef<'_>, old: &FieldRef<'_>) {
        validate_spec(&slice.at("spec"), &old.at("spec"));
    }
}

fn default_times_added(slice: &mut Tree, facts: &RequestFacts) {
    for device in slice.child("spec").items_mut("devices") {
        for taint in device.items_mut("taints") {
            taint::default_time_added(taint, facts);
        }
    }
}

fn validate_spec(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    format::check_driver(&spec.at("driver"));
    validate_pool(&spec.at("pool"));
    if old.is_set() {
        spec.at("pool").at("name").immutable(&old.at("pool").at("name"));
        spec.at("driver").immutable(&old.at("driver"));
        spec.at("nodeName").immutable(&old.at("nodeName"));
    }
    validate_nodes(spec);
    let (devices, counters) = (spec.at("devices"), spec.at("sharedCounters"));
    if devices.is_set() && counters.is_set() {
        spec.invalid_as("", "only one of `sharedCounters` or `devices` is allowed");
    }
    let big = devices.items().any(|device| device::is_large(&device));
    if format::check_max_items(&devices, if big { MAX_LARGE_DEVICES } else { MAX_DEVICES }) {
        let each = spec.at("perDeviceNodeSelection").bool();
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
        device::validate_declarative_counters(&set, "name");
    }
}

fn unique_names(list: &FieldRef<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for item in list.items() {
        let name = item.at("name").str();
        if seen.contains(&name) {
            item.errors().duplicate(name);
        }
        seen.push(name);
    }
}

fn validate_pool(pool: &FieldRef<'_>) {
    format::check_pool(&pool.at("name"));
    if pool.at("resourceSliceCount").int() <= 0 {
        pool.at("resourceSliceCount").invalid("must be greater than zero");
    }
    if pool.at("generation").int() < 0 {
        pool.at("generation")
            .invalid("must be greater than or equal to zero");
    }
}

/// Exactly one of the node selection fields must be set.
fn validate_nodes(spec: &FieldRef<'_>) {
    let mut ways = Vec::new();
    let node = spec.at("nodeName");
    if node.is_set() && node.is_empty() {
        node.invalid("must be either unset or set to a non-empty string");
    } else if node.is_set() {
        ways.push("`nodeName`");
        name::check(&node, name::check_dns1123_subdomain);
    }
    let selector = spec.at("nodeSelector");
    if selector.is_set() {
        ways.push("`nodeSelector`");
        let terms = selector.at("nodeSelectorTerms");
        if terms.len() != 1 {
            terms.invalid("must have exactly one node selector term");
        }
    }
    for (field, way) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
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
